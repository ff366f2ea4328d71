//! From what the compiler said, or how it ended, to diagnostics that a tenant understands.

use mfaas_audit::rustc_json;
use mfaas_delivery::{Diagnostic, Level, RENDERED_BYTES_MAX};
use mfaas_rules::{Finding, Layer, codes};
use mfaas_sandbox::Exit;

use crate::deps::facade::{self, Reason};
use crate::error::BuilderError;
use crate::exceeded;
use crate::journal::{Stop, refusal};
use crate::sandbox::Ran;

/// Messages that are passed on from one run; a source with more errors has the same first ones
/// after these are fixed.
const MESSAGES_MAX: usize = 50;

/// The compiler's messages of one run.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// What it would not compile.
    pub(crate) errors: Vec<rustc_json::Diagnostic>,
    /// What it only minded.
    pub(crate) warnings: Vec<rustc_json::Diagnostic>,
    /// What it said of its own crash.
    crash: Option<String>,
    /// Lines that are no message: the compiler's own panic, for example.
    other: String,
}

impl Messages {
    /// Reads the standard error of `rustc --error-format=json`.
    pub(crate) fn read(stderr: &[u8]) -> Self {
        let mut messages = Self::default();
        for line in String::from_utf8_lossy(stderr).lines() {
            let Some(message) = rustc_json::read(line) else {
                messages.other.push_str(line);
                messages.other.push('\n');
                continue;
            };
            match message.level {
                // The sum at the end says nothing that the errors before it do not say.
                rustc_json::Level::Error if message.message.starts_with("aborting due to") => {}
                rustc_json::Level::Error => messages.errors.push(message),
                rustc_json::Level::Warning => messages.warnings.push(message),
                rustc_json::Level::Note => {}
                rustc_json::Level::InternalError => messages.crash = Some(message.message),
            }
        }
        messages
    }

    /// The errors, as a tenant sees them.
    /// What the facade of std refuses comes first: the others may follow from it.
    pub(crate) fn error_diagnostics(&self) -> Vec<Diagnostic> {
        let refusal_or_error =
            |message| refused_by_facade(message).unwrap_or_else(|| diagnostic(message, Level::Error));
        let mut diagnostics: Vec<Diagnostic> =
            self.errors.iter().take(MESSAGES_MAX).map(refusal_or_error).collect();
        diagnostics.sort_by_key(|diagnostic| diagnostic.layer != Layer::Facade);
        diagnostics
    }

    /// The warnings, as a tenant sees them.
    pub(crate) fn warning_diagnostics(&self) -> Vec<Diagnostic> {
        self.warnings.iter().take(MESSAGES_MAX).map(|message| diagnostic(message, Level::Warning)).collect()
    }
}

fn diagnostic(message: &rustc_json::Diagnostic, level: Level) -> Diagnostic {
    Diagnostic {
        code: codes::MF0401,
        level,
        message: mfaas_ident::sanitise(&message.message, 500),
        hint: String::new(),
        rendered: mfaas_ident::sanitise(&message.rendered, RENDERED_BYTES_MAX),
        span: message.span.clone(),
        layer: Layer::Compiler,
    }
}

/// The words around the reason of an item that the facade keeps behind a `cfg`.
const GATE: (&str, &str) = ("the item is gated behind the `", "` feature");
/// How the compiler calls an attribute macro that the prelude lacks.
const ATTRIBUTE: (&str, &str) = ("cannot find attribute `", "` in this scope");

/// The refusal that a message is, if the facade of std is behind it.
fn refused_by_facade(message: &rustc_json::Diagnostic) -> Option<Diagnostic> {
    let reason = facade_reason(message)?;
    let (code, hint) = (reason.code, reason.code.hint());
    let text = message.message.strip_prefix(&format!("{code}: ")).unwrap_or(&message.message);
    let message_text = if text == reason.why { text.to_owned() } else { format!("{text}: {}", reason.why) };
    // The compiler has repeated the reason, but for an attribute, which can carry none.
    let missing = if message.rendered.contains(&reason.text()) {
        String::new()
    } else {
        format!("  = note: {}\n", reason.text())
    };
    let rendered = format!("{}\n{missing}  = help: {hint}\n", message.rendered.trim_end());
    Some(Diagnostic {
        code,
        message: mfaas_ident::sanitise(&message_text, 500),
        hint: hint.to_owned(),
        rendered: mfaas_ident::sanitise(&rendered, RENDERED_BYTES_MAX),
        layer: Layer::Facade,
        ..diagnostic(message, Level::Error)
    })
}

/// Why the facade of std has refused something, if a message tells of that: it speaks of a place in the
/// facade's source, which no tenant can write to, in words of our tables. A tenant who writes the
/// same words gets a compile error at most.
pub(crate) fn facade_reason(message: &rustc_json::Diagnostic) -> Option<Reason> {
    let ours = message.remarks.iter().filter(|remark| remark.file.starts_with(facade::CLAIMED_ROOT));
    let between = |text: &str, (before, behind): (&str, &str)| {
        Some(text.strip_prefix(before)?.strip_suffix(behind)?.to_owned())
    };
    ours.flat_map(|remark| [between(&remark.text, GATE), Some(message.message.clone())])
        .flatten()
        .find_map(|text| Reason::parse(&text))
        .or_else(|| Reason::of_attribute(&between(&message.message, ATTRIBUTE)?))
}

/// Judges how the compiler ended on a tenant's source. `Ok` is a clean exit; every other ending
/// is a refusal with the limit, or the compiler's words.
pub(crate) fn judge_compiler(ran: &Ran, messages: &Messages) -> Result<(), Stop> {
    let refuse = |code, layer, text: String| Err(refusal(&Finding::new(code, layer, text)));
    match ran.exit {
        Exit::Code(0) => Ok(()),
        Exit::Code(_) if messages.crash.is_some() => {
            let text = messages.crash.as_deref().unwrap_or_default();
            refuse(codes::MF0406, Layer::Compiler, format!("the compiler crashed: {text}"))
        }
        Exit::Code(_) if !messages.errors.is_empty() => {
            let mut diagnostics = Vec::from_iter(exceeded::constant_memory(&messages.errors, &ran.limits));
            diagnostics.extend(messages.error_diagnostics());
            diagnostics.extend(exceeded::compiler_limits(&messages.errors));
            Err(Stop::Refused(diagnostics))
        }
        Exit::Code(code) => {
            let text = last_line(&messages.other);
            refuse(
                codes::MF0406,
                Layer::Compiler,
                format!("the compiler ended with {code} and no error message{text}"),
            )
        }
        Exit::Signal(signal) => {
            if let Some(text) = exceeded::stack(&messages.other) {
                return refuse(codes::MF0404, Layer::Compiler, text);
            }
            let text = last_line(&messages.other);
            refuse(codes::MF0406, Layer::Compiler, format!("the compiler crashed with signal {signal}{text}"))
        }
        Exit::Denied => refuse(
            codes::MF0406,
            Layer::Sandbox,
            "the compiler made a system call that it has no use for".to_owned(),
        ),
        Exit::CpuLimit => refuse(codes::MF0402, Layer::Sandbox, exceeded::cpu(&ran.limits)),
        Exit::WallLimit => refuse(codes::MF0403, Layer::Sandbox, exceeded::wall(&ran.limits)),
        Exit::MemoryLimit => refuse(codes::MF0404, Layer::Sandbox, exceeded::memory(&ran.limits)),
        Exit::ProcessLimit => refuse(codes::MF0404, Layer::Sandbox, exceeded::processes(&ran.limits)),
        Exit::OutputLimit => refuse(codes::MF0405, Layer::Sandbox, exceeded::output(&ran.limits)),
        Exit::FileLimit => refuse(codes::MF0405, Layer::Sandbox, exceeded::file(&ran.limits)),
        Exit::Cancelled => Err(Stop::Failed(BuilderError::Cancelled)),
    }
}

fn last_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .map_or_else(String::new, |line| format!(": {}", mfaas_ident::sanitise_line(line, 200)))
}
