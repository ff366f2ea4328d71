//! rustc and rust-lld do their work in the sandbox.

use std::path::{Path, PathBuf};
use std::process::Command;

use mfaas_sandbox::{Access, Exit, Filter, Level, Outcome, SandboxSpec};

use crate::setup::{LIMITS, libraries, mount, run, text};

pub(crate) const TESTS: &[crate::Test] = &[
    ("rustc_compiles_and_links_a_library", rustc_compiles_and_links_a_library),
    ("rustc_loads_a_proc_macro", rustc_loads_a_proc_macro),
    ("a_compile_error_is_rustcs_own", a_compile_error_is_rustcs_own),
    ("endless_const_eval_is_a_cpu_limit", endless_const_eval_is_a_cpu_limit),
    ("cargo_and_gcc_run_a_build_script", cargo_and_gcc_run_a_build_script),
];

fn sysroot() -> PathBuf {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    PathBuf::from(text(&output.stdout).trim())
}

const LINKER: &str = "/toolchain/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld";

fn rustc(work: &Path, arguments: &[&str], access: Access) -> Outcome {
    let sysroot = sysroot();
    let mut mounts = libraries(&sysroot.join("bin/rustc"));
    mounts.push(mount(&sysroot, "/toolchain", Access::Execute));
    mounts.push(mount(work, "/out", access));
    run(SandboxSpec {
        program: PathBuf::from("/toolchain/bin/rustc"),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: vec![("LD_LIBRARY_PATH".to_owned(), "/toolchain/lib".to_owned())],
        directory: PathBuf::from("/out"),
        mounts,
        filter: Filter::Compiler,
        limits: LIMITS,
        level: Level::Full,
    })
}

/// Links without any C toolchain: the names that gcc's driver would find are empty archives here,
/// and symbols may stay undefined in a shared object.
fn link_arguments() -> Vec<&'static str> {
    vec!["-Clinker-flavor=ld.lld", "-Clink-arg=--unresolved-symbols=ignore-all", "-Lnative=/out/link"]
}

fn make_link_root(work: &Path) {
    std::fs::create_dir(work.join("link")).unwrap();
    for name in ["c", "gcc_s", "util", "rt", "pthread", "dl", "m"] {
        std::fs::write(work.join(format!("link/lib{name}.a")), "!<arch>\n").unwrap();
    }
}

fn compile(work: &Path, kind: &str, file: &str, more: &[&str], access: Access) -> Outcome {
    let linker = format!("-Clinker={LINKER}");
    let mut arguments =
        vec!["--edition", "2024", "--crate-type", kind, "-O", "-Ccodegen-units=1", file, linker.as_str()];
    arguments.extend(link_arguments());
    arguments.extend(more);
    rustc(work, &arguments, access)
}

fn rustc_compiles_and_links_a_library() {
    let work = tempfile::tempdir().unwrap();
    make_link_root(work.path());
    let source = "#[unsafe(no_mangle)] pub extern \"C\" fn entry(x: u64) -> usize { format!(\"{x}\").len() }";
    std::fs::write(work.path().join("hello.rs"), source).unwrap();
    let outcome = compile(work.path(), "cdylib", "hello.rs", &["-Cpanic=abort"], Access::Write);
    assert_eq!(outcome.exit, Exit::Code(0), "{}", text(&outcome.stderr));
    assert_eq!(outcome.level, Level::Full);
    assert!(outcome.cpu.as_millis() > 0);
    let image = std::fs::read(work.path().join("libhello.so")).unwrap();
    assert_eq!(&image[..4], b"\x7fELF");
}

fn rustc_loads_a_proc_macro() {
    let work = tempfile::tempdir().unwrap();
    make_link_root(work.path());
    let source = "extern crate proc_macro;\n#[proc_macro_derive(Seven)]\n\
        pub fn seven(_: proc_macro::TokenStream) -> proc_macro::TokenStream { \"pub const SEVEN: u32 = 7;\".parse().unwrap() }";
    std::fs::write(work.path().join("seven.rs"), source).unwrap();
    let outcome = compile(work.path(), "proc-macro", "seven.rs", &[], Access::WriteAndLoad);
    assert_eq!(outcome.exit, Exit::Code(0), "{}", text(&outcome.stderr));

    std::fs::write(
        work.path().join("user.rs"),
        "#[derive(seven::Seven)] pub struct S;\npub fn f() -> u32 { SEVEN }",
    )
    .unwrap();
    let extern_seven = ["--extern", "seven=/out/libseven.so"];
    let outcome = compile(work.path(), "rlib", "user.rs", &extern_seven, Access::WriteAndLoad);
    assert_eq!(outcome.exit, Exit::Code(0), "{}", text(&outcome.stderr));

    // The same without the right to map code from there.
    let outcome = compile(work.path(), "rlib", "user.rs", &extern_seven, Access::Write);
    assert_eq!(outcome.exit, Exit::Code(1), "{}", text(&outcome.stderr));
}

fn a_compile_error_is_rustcs_own() {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("wrong.rs"), "pub fn f() -> u32 { \"seven\" }").unwrap();
    let outcome = compile(work.path(), "rlib", "wrong.rs", &[], Access::Write);
    assert_eq!(outcome.exit, Exit::Code(1));
    assert!(text(&outcome.stderr).contains("E0308"), "{}", text(&outcome.stderr));
}

fn endless_const_eval_is_a_cpu_limit() {
    let work = tempfile::tempdir().unwrap();
    let source = "#![allow(long_running_const_eval)]\npub const X: u32 = loop {};";
    std::fs::write(work.path().join("endless.rs"), source).unwrap();
    let sysroot = sysroot();
    let mut mounts = libraries(&sysroot.join("bin/rustc"));
    mounts.push(mount(&sysroot, "/toolchain", Access::Execute));
    mounts.push(mount(work.path(), "/out", Access::Write));
    let outcome = run(SandboxSpec {
        program: PathBuf::from("/toolchain/bin/rustc"),
        arguments: vec!["--crate-type".to_owned(), "rlib".to_owned(), "endless.rs".to_owned()],
        environment: vec![("LD_LIBRARY_PATH".to_owned(), "/toolchain/lib".to_owned())],
        directory: PathBuf::from("/out"),
        mounts,
        filter: Filter::Compiler,
        limits: mfaas_rules::limits::CompileLimits { cpu_seconds_max: 2, ..LIMITS },
        level: Level::Full,
    });
    assert_eq!(outcome.exit, Exit::CpuLimit, "{}", text(&outcome.stderr));
}

/// As the trusted job does that builds the dependency cache; with the compiler's filter it cannot.
fn cargo_and_gcc_run_a_build_script() {
    let work = tempfile::tempdir().unwrap();
    let path = |file: &str| work.path().join(file);
    std::fs::create_dir(path("src")).unwrap();
    std::fs::write(path("Cargo.toml"), "[package]\nname = \"scripted\"\nedition = \"2024\"\n[workspace]\n")
        .unwrap();
    std::fs::write(path("build.rs"), "fn main() { println!(\"cargo::rustc-env=SEVEN=7\"); }").unwrap();
    std::fs::write(path("src/main.rs"), "fn main() { println!(env!(\"SEVEN\")); }").unwrap();
    let build = |filter| {
        let mut mounts =
            vec![mount(sysroot(), "/toolchain", Access::Execute), mount("/usr", "/usr", Access::Execute)];
        let library_roots = ["/lib", "/lib64", "/bin"].iter().filter(|root| Path::new(root).exists());
        mounts.extend(library_roots.map(|root| mount(root, root, Access::Execute)));
        mounts.push(mount(work.path(), "/out", Access::WriteAndExecute));
        let environment = [
            ("LD_LIBRARY_PATH", "/toolchain/lib"),
            ("PATH", "/toolchain/bin:/usr/bin:/bin"),
            ("HOME", "/out"),
            ("CARGO_HOME", "/out/cargo"),
            ("TMPDIR", "/out"),
            // `cc` leads through /etc, which is not there.
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "gcc"),
        ];
        run(SandboxSpec {
            program: PathBuf::from("/toolchain/bin/cargo"),
            arguments: ["run", "--offline"].map(str::to_owned).to_vec(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            directory: PathBuf::from("/out"),
            mounts,
            filter,
            limits: LIMITS,
            level: Level::Full,
        })
    };
    let outcome = build(Filter::DependencyBuild);
    assert_eq!(outcome.exit, Exit::Code(0), "{}", text(&outcome.stderr));
    assert_eq!(text(&outcome.stdout), "7\n");
    std::fs::remove_dir_all(path("target")).unwrap();
    assert!(!build(Filter::Compiler).exit.success());
}
