//! One case from layer to layer: which stops it, which would have, and how it ends when all of
//! these are off.

use std::collections::BTreeSet;
use std::fmt;

use mfaas_builder::ablation::{Decoy, Ending, Site};
use mfaas_delivery::Diagnostic;
use mfaas_harness::checkout;
use mfaas_rules::{Code, Layer, codes};
use mfaas_unpack::SourceTree;

use crate::case::Case;
use crate::worker::Jail;

/// Layers that can be taken off one after the other; no case gets further than through all.
const RUNGS_MAX: usize = 12;
/// What the limits of the sandbox answer with, and a compiler that crashed under them.
const LIMITS: &[Code] = &[codes::MF0402, codes::MF0403, codes::MF0404, codes::MF0405, codes::MF0406];

/// What became of a case.
#[derive(Debug)]
pub(crate) struct Climb {
    /// The layers that refused it, each with those before it off.
    pub(crate) rungs: Vec<Rung>,
    /// How it ends with all of these off.
    pub(crate) end: End,
    /// What a call says of the image if it ended as a fault, and its machine code is neither rewritten nor
    /// verified besides.
    pub(crate) unverified: Option<String>,
    /// Whether protection keys held the calls.
    pub(crate) under_keys: bool,
}

/// One refusal.
#[derive(Debug)]
pub(crate) struct Rung {
    pub(crate) layer: Layer,
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// What nothing can be taken off of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// An image was made, and this is what a locked-down worker says of a call.
    Image(String),
    /// It is no Rust that this compiler takes, whatever layers there are.
    CompileError,
    /// It is nothing that its reader can make sense of.
    Unreadable,
    /// A limit of the build sandbox, or the compiler's death under it.
    Limit,
    /// A reviewer is asked first.
    Review,
}

impl End {
    /// The word of `expect.toml`.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Image(_) => "image",
            Self::CompileError => "compile_error",
            Self::Unreadable => "unreadable",
            Self::Limit => "limit",
            Self::Review => "review",
        }
    }
}

impl fmt::Display for Climb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rung in &self.rungs {
            write!(f, "{} {} > ", rung.layer.as_str(), rung.code)?;
        }
        match &self.end {
            End::Image(text) => write!(f, "image: {text}"),
            end => f.write_str(end.as_str()),
        }
    }
}

/// Takes the case through the pipeline, with all layers and then without those that stopped it.
pub(crate) fn climb(site: &Site, jail: &Jail, case: &Case) -> anyhow::Result<Climb> {
    let decoys = decoys();
    let mut rungs: Vec<Rung> = Vec::new();
    let mut ending = site.deploy(case.upload())?;
    let mut off = BTreeSet::new();
    let end = loop {
        let refused = match ending {
            Ending::Admitted(image) => break End::Image(jail.call(&image, &[])?),
            Ending::Waiting(diagnostics) => {
                rungs.push(rung(&diagnostics)?);
                break End::Review;
            }
            Ending::Refused(diagnostics) => rung(&diagnostics)?,
        };
        if LIMITS.contains(&refused.code) {
            rungs.push(refused);
            break End::Limit;
        }
        // What still refuses when it is off is not a rule but a reader: with its lints off, the
        // compiler can only object to what is no Rust.
        if off.contains(&refused.layer) {
            break if refused.layer == Layer::Compiler { End::CompileError } else { End::Unreadable };
        }
        anyhow::ensure!(rungs.len() < RUNGS_MAX, "it does not end: {rungs:?}");
        off.insert(refused.layer);
        rungs.push(refused);
        ending = site.without(SourceTree::unchecked(case.files.clone()), off.iter().copied(), &decoys)?;
    };
    let unverified = if end == End::Image("fault".to_owned()) {
        off.extend([Layer::MachineCode, Layer::ThrowawayLoad]);
        match site.without(SourceTree::unchecked(case.files.clone()), off, &decoys)? {
            Ending::Admitted(image) => Some(jail.call(&image, &["--unverified"])?),
            Ending::Waiting(_) | Ending::Refused(_) => None,
        }
    } else {
        None
    };
    Ok(Climb { rungs, end, unverified, under_keys: jail.has_keys() })
}

fn rung(diagnostics: &[Diagnostic]) -> anyhow::Result<Rung> {
    let first = diagnostics.first().ok_or_else(|| anyhow::anyhow!("refused without a finding"))?;
    Ok(Rung { layer: first.layer, code: first.code, message: first.message.clone() })
}

/// Copies that stand where the samples look for files of the host.
fn decoys() -> Vec<Decoy> {
    let fixtures = checkout().join("tests/fixtures/outside");
    [("passwd", "/etc/passwd"), ("corpus", "/opt/corpus")]
        .map(|(name, inside)| Decoy { host: fixtures.join(name), inside: inside.to_owned() })
        .into()
}
