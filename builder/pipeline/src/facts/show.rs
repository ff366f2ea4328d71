//! The facts as a person reads them, or as JSON. Every text in them was sanitised by whoever read it.

use std::fmt::Write as _;

use mfaas_rules::crate_facts::{CrateFacts, FileFacts, GeigerReport, HotspotKind, Role, Summary, UnsafeCode};

use crate::error::BuilderError;

/// Prints to standard output: `value` as JSON, or `text`.
#[allow(clippy::print_stdout, reason = "the answer of the command")]
pub(crate) fn print_text<T: serde::Serialize>(
    value: &T,
    json: bool,
    text: impl FnOnce() -> String,
) -> Result<(), BuilderError> {
    if json {
        let text = serde_json::to_string_pretty(value).map_err(|error| BuilderError::Command {
            command: "printing the facts",
            problem: error.to_string(),
        })?;
        println!("{text}");
    } else {
        print!("{}", text());
    }
    Ok(())
}

pub(crate) fn draw(facts: &CrateFacts) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "crate:  {}", facts.package.as_deref().unwrap_or("(no readable Cargo.toml)"));
    summary(&mut out, &facts.summary);
    for (is, what) in [(facts.proc_macro, "a procedural macro"), (facts.build_script, "a build script")] {
        if is {
            let _ = writeln!(out, "runs:   {what}");
        }
    }
    for exported in &facts.exported_macros {
        let powers: Vec<&str> = exported.powers.iter().map(|kind| word(*kind)).collect();
        let attributes = if exported.passes_attributes { "; passes its caller's attributes on" } else { "" };
        let wraps = if exported.wraps_caller { "; wraps its caller's tokens in unsafe" } else { "" };
        if !powers.is_empty() || exported.passes_attributes {
            let place = format!("{}:{}", exported.span.file, exported.span.line);
            let powers = powers.join(", ");
            let _ = writeln!(out, "macro:  {}! at {place}: {powers}{attributes}{wraps}", exported.name);
        }
    }
    facts.files.iter().for_each(|file| draw_file(&mut out, file));
    out
}

fn summary(out: &mut String, summary: &Summary) {
    let answer = match summary.unsafe_code {
        UnsafeCode::None => "none",
        UnsafeCode::Counted => "counted",
        UnsafeCode::Unknown => "unknown",
    };
    let (geiger, tokens) = (summary.geiger.unsafe_total(), summary.token_hotspots);
    let _ = writeln!(out, "unsafe: {answer} (geiger counts {geiger}, the token scan finds {tokens})");
    for reason in &summary.reasons {
        let _ = writeln!(out, "        {reason}");
    }
}

fn draw_file(out: &mut String, file: &FileFacts) {
    let role = match file.role {
        Role::Library => "",
        Role::BuildScript => " (build script)",
        Role::Aside => " (not compiled for users)",
    };
    let geiger = match &file.geiger {
        GeigerReport::Counted { counts, .. } => counts.unsafe_total().to_string(),
        GeigerReport::Unknown { reason } => format!("unknown: {reason}"),
    };
    let _ = writeln!(out, "\n{}{role}: geiger {geiger}, tokens {}", file.path, file.tokens.power());
    for hotspot in &file.tokens.hotspots {
        let inside = hotspot.inside.as_ref().map_or_else(String::new, |label| format!(" inside {label}"));
        let place = format!("{}:{}", hotspot.span.line, hotspot.span.column);
        let _ = writeln!(out, "  {place:>9} {}: {}{inside}", word(hotspot.kind), hotspot.what);
    }
    let (kept, all) = (file.tokens.hotspots.len(), file.tokens.counts.values().sum::<usize>());
    if all > kept {
        let _ = writeln!(out, "            and {} more", all - kept);
    }
}

/// The kind's word, as JSON has it, with spaces.
fn word(kind: HotspotKind) -> &'static str {
    match kind {
        HotspotKind::Unsafe => "unsafe",
        HotspotKind::UnsafeAttribute => "unsafe attribute",
        HotspotKind::Linkage => "linkage",
        HotspotKind::ExternBlock => "extern block",
        HotspotKind::StaticMut => "static mut",
        HotspotKind::MachineCode => "machine code",
        HotspotKind::Include => "include",
        HotspotKind::ModulePath => "module path",
        HotspotKind::BuildInput => "build input",
        HotspotKind::OutDir => "output of the build script",
        HotspotKind::Quote => "quoted code",
        HotspotKind::WordInLiteral => "word in a literal",
        HotspotKind::Invisible => "invisible character",
        HotspotKind::Unreadable => "unreadable",
    }
}
