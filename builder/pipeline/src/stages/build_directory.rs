//! The scratch directories of one build, and rustc as it is called on a tenant's crate.
//!
//! Inside a full sandbox every path is constant (`/src`, `/out`, `/entry`, `/deps`, `/link`,
//! `/toolchain`), so nothing of the machine can reach an artifact. The environment is empty but
//! for what rustc itself needs.

use std::path::{Path, PathBuf};

use mfaas_rules::Layer;
use mfaas_rules::limits::{COMPILE, COMPILER_STACK_BYTES_MAX};
use mfaas_rules::profiles::image_layout;
use mfaas_unpack::SourceTree;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::context::BuildContext;
use super::dependencies::Extern;
use crate::deps::Product;
use crate::error::BuilderError;
use crate::flags;
use crate::journal::Meter;
use crate::layers::Layers;
use crate::sandbox::{Filter, Job, Ran, View};
use crate::toolchain::{SCRIPT_FILE, TARGET, host_libraries};

/// The root of every tenant's crate; a manifest cannot name another.
pub(super) const CRATE_ROOT: &str = "src/lib.rs";

/// Where products go, inside.
const OUT_INSIDE: &str = "/out";
/// Where rustc finds its arguments, inside, when macros must not.
const PIPE_INSIDE: &str = "/ask";
const PIPE_FILE: &str = "rustc";

/// Lets rustc take unstable options.
fn unstable_options() -> (String, String) {
    ("RUSTC_BOOTSTRAP".to_owned(), "1".to_owned())
}

/// One build's directories; removed when dropped.
#[derive(Debug)]
pub(super) struct BuildDirectory {
    /// Keeps the directories alive.
    scratch: tempfile::TempDir,
    source: View,
    entry: View,
    out: View,
    compiler: View,
    link: View,
    library: View,
    rewriter: View,
    host: Vec<View>,
    layers: Layers,
    /// What stands in for the standard library in the tenant's crate.
    stand_ins: Vec<Product>,
}

impl BuildDirectory {
    /// Writes the crate's files to a new scratch directory.
    pub(super) fn prepare(tree: &SourceTree, context: &BuildContext) -> Result<Self, BuilderError> {
        let scratch = tempfile::Builder::new()
            .prefix("build-")
            .tempdir_in(&context.work)
            .map_err(BuilderError::io(&context.work))?;
        let make = |name: &str| {
            let path = scratch.path().join(name);
            std::fs::create_dir(&path).map_err(BuilderError::io(&path)).map(|()| path)
        };
        let (source, entry, out) = (make("src")?, make("entry")?, make("out")?);
        let stand_ins =
            if context.layers.has(Layer::Facade) { context.deps.stand_ins()? } else { Vec::new() };
        // No more than the lexer has read: a compiler must not see a file that it has not.
        tree.write_crate_into(&source).map_err(BuilderError::Unpack)?;
        let sandbox = &context.sandbox;
        Ok(Self {
            source: sandbox.read(&source, flags::SOURCE_PREFIX),
            entry: sandbox.read(&entry, "/entry"),
            out: sandbox.write(&out, OUT_INSIDE),
            compiler: sandbox.execute(&context.toolchain.compiler_root(), "/toolchain"),
            link: sandbox.read(&context.toolchain.link_root(), "/link"),
            library: sandbox.load(&context.deps.library_root(), "/deps"),
            rewriter: sandbox.execute(&context.programs.rewriter, "/mfaas-rewriter"),
            host: host_libraries(sandbox),
            layers: context.layers.clone(),
            stand_ins,
            scratch,
        })
    }

    /// Writes the generated entry crate and answers its path inside.
    pub(super) fn write_entry(&self, text: &str) -> Result<String, BuilderError> {
        let path = self.entry.host.join("entry.rs");
        std::fs::write(&path, text).map_err(BuilderError::io(&path))?;
        Ok(self.entry.path("entry.rs"))
    }

    /// The path inside of a product.
    pub(super) fn product(&self, name: &str) -> String {
        self.out.path(name)
    }

    /// The path on the host of a product.
    pub(super) fn product_on_host(&self, name: &str) -> PathBuf {
        self.out.host.join(name)
    }

    /// The path inside of a compiled dependency.
    pub(super) fn library(&self, file: &str) -> String {
        self.library.path(file)
    }

    /// Where the source lies inside, and what else the compiler may read.
    pub(super) fn source_root(&self) -> &str {
        &self.source.inside
    }

    /// Where compiled crates and std lie inside.
    pub(super) fn library_roots(&self) -> [&str; 2] {
        [&self.library.inside, &self.compiler.inside]
    }

    /// The flags that every compilation of a build has in common.
    pub(super) fn common_flags(&self) -> Vec<String> {
        let mut flags = vec![
            flags::EDITION.to_owned(),
            "--error-format=json".to_owned(),
            format!("--sysroot={}", self.compiler.inside),
            format!("--target={TARGET}"),
            // `dependency`: what a crate needs is found, and cannot be named.
            format!("-Ldependency={}", self.library.inside),
            flags::remap(&self.source.inside, flags::SOURCE_PREFIX),
            // rustc's own temporary directories are made beside its products.
            format!("--out-dir={}", self.out.inside),
        ];
        flags.extend(flags::CODE_GENERATION.iter().map(|flag| (*flag).to_owned()));
        flags
    }

    /// The flags for the tenant's own crate, the same wherever its source is read. Only here is
    /// the facade: the generated entry is ours and sees the library as it is.
    pub(super) fn tenant_flags(&self, crate_name: &str, externs: &[Extern]) -> Vec<String> {
        let mut flags = self.common_flags();
        flags.push("--crate-type=rlib".to_owned());
        flags.push(format!("--crate-name={crate_name}"));
        if self.layers.has(Layer::Compiler) {
            flags.extend(flags::FORBIDDEN.iter().map(|flag| (*flag).to_owned()));
        }
        for product in &self.stand_ins {
            flags.push(format!("--extern={}={}", product.extern_name, self.library(&product.file)));
        }
        for item in externs {
            flags.push(format!("--extern={}={}", item.name, self.library(&item.file)));
        }
        flags
    }

    /// The flags that make a shared object without any C compiler.
    pub(super) fn linker_flags(&self) -> Vec<String> {
        let undefined =
            if self.layers.has(Layer::Linker) { "--no-undefined" } else { "--unresolved-symbols=ignore-all" };
        let rewrites = self.layers.has(Layer::MachineCode);
        vec![
            format!("-Clinker={}", if rewrites { self.rewriter.inside.clone() } else { self.linker() }),
            "-Clinker-flavor=ld.lld".to_owned(),
            format!("-Lnative={}", self.link.inside),
            format!("-Ldependency={}", self.out.inside),
            format!("-Clink-arg={undefined}"),
            "-Clink-arg=--error-limit=0".to_owned(),
            "-Clink-arg=--build-id=none".to_owned(),
            format!("-Clink-arg=-T{}", self.link.path(SCRIPT_FILE)),
            format!("-Clink-arg={}", image_layout::ALIGN_ARGUMENT),
            "-Cstrip=symbols".to_owned(),
        ]
    }

    /// Runs rustc in the sandbox, in the source's root.
    pub(super) fn rustc(
        &self,
        context: &BuildContext,
        arguments: Vec<String>,
        bootstrap: bool,
        meter: &Meter,
    ) -> Result<Ran, BuilderError> {
        let mut job = self.job(arguments, &self.out);
        if bootstrap {
            job.environment.push(unstable_options());
        }
        let ran = context.sandbox.run(job)?;
        meter.add(ran.cpu);
        Ok(ran)
    }

    /// The same for a run in which procedural macros must not see what it is for: what they find is the same in every
    /// such run, an empty directory for products included. rustc takes its arguments from a pipe, which is empty
    /// before it loads a macro.
    pub(super) fn rustc_unseen(
        &self,
        context: &BuildContext,
        arguments: &[String],
        out: &View,
    ) -> Result<Ran, BuilderError> {
        let failed = |error: std::io::Error| BuilderError::io(self.scratch.path())(error);
        let room = tempfile::tempdir_in(self.scratch.path()).map_err(failed)?;
        let pipe = room.path().join(PIPE_FILE);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).map_err(|error| failed(error.into()))?;
        let view = context.sandbox.read(room.path(), PIPE_INSIDE);
        let mut job = self.job(vec![format!("@{}", view.path(PIPE_FILE))], out);
        job.environment.push(unstable_options());
        job.views.push(view);
        let text = arguments.join("\n");
        std::thread::scope(|scope| {
            // Waits until rustc opens it. An rustc that does not has ended, and says why.
            scope.spawn(|| std::fs::write(&pipe, text));
            let ran = context.sandbox.run(job);
            let _reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
            ran
        })
    }

    /// Another empty directory for products, which stands where [`BuildDirectory`]'s own does.
    pub(super) fn another_out(&self, context: &BuildContext) -> Result<View, BuilderError> {
        let path = self.scratch.path().join("again");
        std::fs::create_dir(&path).map_err(BuilderError::io(&path))?;
        Ok(context.sandbox.write(&path, OUT_INSIDE))
    }

    /// Where products go.
    pub(super) fn out(&self) -> &View {
        &self.out
    }

    fn job(&self, arguments: Vec<String>, out: &View) -> Job {
        let mut views = self.host.clone();
        views.extend([
            self.compiler.clone(),
            self.link.clone(),
            self.library.clone(),
            self.source.clone(),
            self.entry.clone(),
            self.rewriter.clone(),
            out.clone(),
        ]);
        views.extend_from_slice(self.layers.decoys());
        Job {
            program: self.compiler(),
            arguments,
            environment: self.environment(),
            directory: self.source.inside.clone(),
            views,
            limits: COMPILE,
            filter: Filter::Compiler,
        }
    }

    /// The toolchain's own linker.
    fn linker(&self) -> String {
        self.compiler.path(&format!("lib/rustlib/{TARGET}/bin/rust-lld"))
    }

    /// rustc's path inside.
    pub(super) fn compiler(&self) -> String {
        self.compiler.path("bin/rustc")
    }

    /// rustc's environment: where its libraries are, since a sandbox has no `/proc` to find them by, what links
    /// for the rewriter, and how much stack it has.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("LD_LIBRARY_PATH".to_owned(), self.compiler.path("lib")),
            ("MFAAS_LINKER".to_owned(), self.linker()),
            ("TMPDIR".to_owned(), self.out.inside.clone()),
            ("RUST_MIN_STACK".to_owned(), COMPILER_STACK_BYTES_MAX.to_string()),
        ]
    }

    /// Leaves the scratch directory behind, for somebody who runs the commands by hand.
    pub(super) fn keep(&mut self) {
        self.scratch.disable_cleanup(true);
    }

    /// Where the scratch directory is on the host.
    pub(super) fn root(&self) -> &Path {
        self.scratch.path()
    }
}
