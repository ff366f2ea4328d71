//! The generated entry, the shim and the tenant's crate become one shared object.
//!
//! Linked against the stub of allowed symbols and nothing else. What the linker misses is named
//! to the tenant together with the part of std that wanted it; what does not type-check in the
//! generated entry is said about the handler, since nothing else in it is the tenant's.

use std::collections::BTreeSet;

use mfaas_ident::{Binding, BindingName, Bindings, FunctionBinding, ResourceBinding};
use mfaas_rules::profiles::image_layout::shim_flags;
use mfaas_rules::profiles::imports;
use mfaas_rules::{Finding, Layer, Span, codes};

use super::build_directory::BuildDirectory;
use super::compile::{CompiledCrate, rlib_name};
use super::context::BuildContext;
use super::dependencies::ResolvedSource;
use super::expand::AdmittedSource;
use crate::deps::Deps;
use crate::diagnostics::{Messages, judge_compiler};
use crate::error::BuilderError;
use crate::journal::{Meter, Stop};

/// The entry crate's source.
const ENTRY: &str = include_str!("../../../toolchain/entry.rs");
/// What is replaced in it: the handler's path, and the list of bindings.
const HANDLER: &str = "function::HANDLER";
const BINDINGS: &str = "/* BINDINGS */";
/// What the compiler says in front of the sentence with which the SDK refuses bindings.
const REFUSES: &str = "evaluation panicked: ";
/// File name of the result in the output directory.
pub(super) const PRODUCT: &str = "function.so";
/// File name of what the linker says about it.
const MAP: &str = "function.map";
/// A sentence of the SDK, in bytes.
const SENTENCE_BYTES_MAX: usize = 256;
/// Symbols that one refusal names.
const SYMBOLS_MAX: usize = 20;

/// A shared object that nobody has looked at. Made by [`link`] alone.
#[derive(Debug)]
pub(super) struct BuiltArtifact {
    pub(super) admitted: AdmittedSource,
    pub(super) bytes: Vec<u8>,
    /// What lies where in it, as the linker tells it.
    pub(super) map: String,
}

/// Compiles the entry and links, in the sandbox.
pub(super) fn link(
    compiled: CompiledCrate,
    context: &BuildContext,
    meter: &Meter,
) -> Result<BuiltArtifact, Stop> {
    let admitted = compiled.admitted;
    let (resolved, directory) = (&admitted.resolved, &admitted.directory);
    let ran = directory.rustc(context, arguments(resolved, directory, &context.deps)?, false, meter)?;
    let messages = Messages::read(&ran.stderr);
    context.layers.refuse_if_any(&undefined_symbols(&messages))?;
    context.layers.refuse_if_any(&not_rewritten(&messages))?;
    let handler = resolved.source.handler.as_str();
    context.layers.refuse_if_any(&handler_findings(&messages, handler, resolved.source.tree.manifest()))?;
    judge_compiler(&ran, &messages)?;
    let path = directory.product_on_host(PRODUCT);
    let bytes = std::fs::read(&path).map_err(BuilderError::product(&path))?;
    // For a sentence alone, and not there where nothing was rewritten.
    let map = std::fs::read_to_string(directory.product_on_host(MAP)).unwrap_or_default();
    Ok(BuiltArtifact { admitted, bytes, map })
}

/// Writes the entry crate and answers rustc's arguments for it.
pub(super) fn arguments(
    resolved: &ResolvedSource,
    directory: &BuildDirectory,
    deps: &Deps,
) -> Result<Vec<String>, BuilderError> {
    let handler = format!("function::{}", resolved.source.handler);
    let bindings = declared(&resolved.source.bindings);
    let entry = directory.write_entry(&ENTRY.replace(HANDLER, &handler).replace(BINDINGS, &bindings))?;
    let mut arguments = directory.common_flags();
    arguments.extend(directory.linker_flags());
    arguments.extend(shim_flags(deps.shim()));
    arguments.push("--crate-type=cdylib".to_owned());
    arguments.push("--crate-name=mfaas_entry".to_owned());
    arguments.push(format!("--extern=function={}", directory.product(&rlib_name(resolved))));
    arguments.push(format!("--extern=mfaas_shim={}", directory.library(deps.shim())));
    arguments.push(format!("--extern=mfaas={}", directory.library(&deps.sdk()?.file)));
    arguments.push(format!("--emit=link={}", directory.product(PRODUCT)));
    arguments.push(entry);
    Ok(arguments)
}

/// The list of bindings as source text. Every word of it is a name or a word of ours.
fn declared(bindings: &Bindings) -> String {
    let one = |(name, binding): (&BindingName, &Binding)| {
        let (kind, access) = match binding {
            Binding::Resource(ResourceBinding { kind, access, .. }) => (kind.as_str(), access.as_str()),
            Binding::Function(_) => (FunctionBinding::KIND, "call"),
        };
        format!("mfaas::__private::Declared {{ name: \"{name}\", kind: \"{kind}\", access: \"{access}\" }},")
    };
    bindings.iter().map(one).collect()
}

/// A finding for each symbol that the stub does not define.
fn undefined_symbols(messages: &Messages) -> Vec<Finding> {
    let symbols: BTreeSet<&str> = messages
        .errors
        .iter()
        .flat_map(|error| error.rendered.lines())
        .filter_map(|line| line.split_once("undefined symbol: "))
        .map(|(_, symbol)| symbol.trim())
        .collect();
    let mut apis = BTreeSet::new();
    let mut findings = Vec::new();
    for symbol in symbols.into_iter().take(SYMBOLS_MAX) {
        let api = imports::api_of(symbol);
        // Several symbols stand behind one part of std; it is named once.
        if api.is_some_and(|api| !apis.insert(api)) {
            continue;
        }
        let symbol = mfaas_ident::sanitise_line(symbol, 100);
        let message = match api {
            Some(api) => {
                format!("the function uses `{api}`, which needs `{symbol}` from the operating system")
            }
            None => format!("the function needs `{symbol}` from the operating system"),
        };
        findings.push(Finding::new(codes::MF0407, Layer::Linker, message));
    }
    findings
}

/// A finding for what the rewriter could not rewrite.
fn not_rewritten(messages: &Messages) -> Vec<Finding> {
    let lines = messages.errors.iter().flat_map(|error| error.rendered.lines());
    let reasons =
        lines.filter_map(|line| line.split_once("mfaas-rewriter: error: ")).map(|(_, reason)| reason);
    reasons.take(1).map(|reason| Finding::new(codes::MF0511, Layer::MachineCode, reason)).collect()
}

/// Errors with a code of the type checker in the generated entry are about the handler. The
/// linker's own failures carry no code.
fn handler_findings(messages: &Messages, handler: &str, manifest: &[u8]) -> Vec<Finding> {
    messages
        .errors
        .iter()
        .filter(|error| error.code.is_some())
        .map(|error| {
            if let Some(sentence) = error.message.strip_prefix(REFUSES) {
                let sentence = mfaas_ident::sanitise_line(sentence, SENTENCE_BYTES_MAX);
                return Finding::new(codes::MF0414, Layer::Compiler, sentence).at_opt(handler_line(manifest));
            }
            let message = format!("the handler `{handler}` does not fit: {}", error.message);
            let finding =
                Finding::new(codes::MF0408, Layer::Compiler, message.replace("function::", "crate::"));
            finding.at_opt(handler_line(manifest))
        })
        .collect()
}

/// The line of Cargo.toml that names the handler, if one does.
fn handler_line(manifest: &[u8]) -> Option<Span> {
    let text = String::from_utf8_lossy(manifest);
    let (index, line) = text.lines().enumerate().find(|(_, line)| {
        line.trim_start().strip_prefix("handler").is_some_and(|rest| rest.trim_start().starts_with('='))
    })?;
    let column = line.chars().take_while(|c| c.is_whitespace()).count();
    Some(Span {
        file: "Cargo.toml".to_owned(),
        line: u32::try_from(index).ok()?.checked_add(1)?,
        column: u32::try_from(column).ok()?.checked_add(1)?,
        end_column: u32::try_from(line.trim_end().chars().count()).ok()?.checked_add(1)?,
        text: mfaas_ident::sanitise_line(line, 200),
    })
}
