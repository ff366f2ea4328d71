//! What cargo runs in place of rustc.

use std::path::Path;
use std::process::{Command, Output};

use mfaas_harness::builder;

/// As cargo tells of a library that it has compiled.
const FORGED: &str = r#"{"reason":"compiler-artifact","package_id":"forged"}"#;

fn compile(command: &mut Command, directory: &Path, more: &[&str]) -> Output {
    let output = command
        .current_dir(directory)
        .args(["--edition=2021", "--emit=metadata"])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// cargo passes on what a compiler prints on its standard output, among its own words.
#[test]
fn a_macro_does_not_speak_in_cargos_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let source = format!(
        "extern crate proc_macro; #[proc_macro] pub fn say(_: proc_macro::TokenStream) -> proc_macro::TokenStream {{ println!(\"{{}}\", {FORGED:?}); Default::default() }}"
    );
    std::fs::write(path.join("forge.rs"), source).unwrap();
    std::fs::write(path.join("user.rs"), "forge::say!();").unwrap();
    std::fs::write(path.join("plan.json"), r#"{"packages":{"user":[]}}"#).unwrap();
    let forge = ["--edition=2021", "--crate-type=proc-macro", "--crate-name=forge", "forge.rs"];
    assert!(Command::new("rustc").current_dir(path).args(forge).status().unwrap().success());

    let user = ["--crate-type=lib", "--extern=forge=libforge.so", "user.rs"];
    let bare = compile(&mut Command::new("rustc"), path, &user);
    assert!(
        String::from_utf8_lossy(&bare.stdout).contains(FORGED),
        "without the wrapper cargo would hear it"
    );

    let mut wrapper = builder();
    wrapper.env("MFAAS_RUSTC_PLAN", path.join("plan.json")).env("CARGO_PKG_NAME", "user").arg("rustc");
    let wrapped = compile(&mut wrapper, path, &user);
    assert_eq!(String::from_utf8_lossy(&wrapped.stdout), "");
    assert!(String::from_utf8_lossy(&wrapped.stderr).contains(FORGED), "it is not lost");

    let mut question = builder();
    question.env("MFAAS_RUSTC_PLAN", path.join("plan.json")).env("CARGO_PKG_NAME", "user");
    let answer = question.args(["rustc", "-vV"]).output().unwrap();
    assert!(String::from_utf8_lossy(&answer.stdout).contains("host:"), "questions are answered");
}
