//! The three counts of unsafe code: geiger, the token scan, the compiler. Each is a proven zero, or
//! not; a missing answer is not.

use super::people::People;
use super::reason::{Place, Reasons};
use super::risk::RiskClass;
use crate::crate_facts::{
    CompilerVerdict, CrateReport, FileFacts, GeigerReport, HotspotKind, Role, UnsafeCode, summarise,
};

/// Two people, unless all three counts of the crate itself are proven zeros. The summary is made anew:
/// a stored one is only what somebody once said. What a procedural macro writes is in no count.
pub(super) fn people(report: &CrateReport) -> People {
    let source = &report.source;
    let proc_macro = source.proc_macro || report.kind.proc_macro;
    let build_script = source.build_script || report.kind.build_script;
    let anew = summarise(&source.files, &source.unread, proc_macro, build_script);
    let clean = [anew.unsafe_code, source.summary.unsafe_code].iter().all(|code| *code == UnsafeCode::None);
    if clean && report.compiler == CompilerVerdict::Clean { People::One } else { People::Two }
}

/// Reasons about unsafe code.
pub(super) fn judge(report: &CrateReport, reasons: &mut Reasons) {
    compiler(&report.compiler, reasons);
    let compiled = || report.source.files.iter().filter(|file| file.role != Role::Aside);
    compiled().for_each(|file| geiger(file, reasons));
    compiled().for_each(|file| tokens(file, reasons));
    if !compiled().any(|file| file.role == Role::Library) {
        for risk in [RiskClass::UnknownGeiger, RiskClass::UnknownTokens] {
            reasons.add(risk, "no source file of a library was found");
        }
    }
    let (geiger, tokens) =
        (report.source.summary.geiger.unsafe_total(), report.source.summary.token_hotspots);
    if geiger > 0 {
        reasons.add(RiskClass::UnsafeGeiger, format!("geiger counts {geiger} in all"));
    }
    if tokens > 0 {
        reasons.add(RiskClass::UnsafeTokens, format!("the token scan finds {tokens} places in all"));
    }
    unproven(report, reasons);
}

/// Where two people are needed, something says why, whatever made it so.
fn unproven(report: &CrateReport, reasons: &mut Reasons) {
    if people(report) == People::Two && !reasons.any(RiskClass::is_about_unsafe) {
        let said = report.source.summary.reasons.first().map_or("", String::as_str);
        let text = format!("what its source's summary says is no proof that there is none: {said}");
        reasons.add(RiskClass::UnknownTokens, text);
    }
}

fn compiler(verdict: &CompilerVerdict, reasons: &mut Reasons) {
    match verdict {
        CompilerVerdict::Clean => {}
        CompilerVerdict::Unsafe { errors, hotspots } => {
            let text = format!("the compiler refuses it {errors} times for unsafe code");
            let places = hotspots
                .iter()
                .map(|hotspot| Place { span: hotspot.span.clone(), what: hotspot.message.clone() });
            reasons.at(RiskClass::UnsafeCompiler, text, places);
        }
        CompilerVerdict::Failed { reason } => {
            reasons.add(RiskClass::UnknownCompiler, format!("it does not compile: {reason}"));
        }
        CompilerVerdict::NotRun { reason } => {
            reasons.add(RiskClass::UnknownCompiler, format!("the compiler was not asked: {reason}"));
        }
    }
}

fn geiger(file: &FileFacts, reasons: &mut Reasons) {
    match &file.geiger {
        GeigerReport::Counted { counts, .. } if counts.unsafe_total() == 0 => {}
        GeigerReport::Counted { counts, .. } => {
            let text = format!("{}: geiger counts {}", file.path, counts.unsafe_total());
            reasons.add(RiskClass::UnsafeGeiger, text);
        }
        GeigerReport::Unknown { reason } => {
            reasons.add(RiskClass::UnknownGeiger, format!("{}: {reason}", file.path));
        }
    }
}

fn tokens(file: &FileFacts, reasons: &mut Reasons) {
    let power: usize = file.tokens.power();
    let has_hotspots =
        |wanted: fn(HotspotKind) -> bool| file.tokens.hotspots.iter().any(|hotspot| wanted(hotspot.kind));
    if power > 0 || has_hotspots(HotspotKind::is_power) {
        let text = format!("{}: the token scan finds {power} places", file.path);
        reasons.at(RiskClass::UnsafeTokens, text, places(file, HotspotKind::is_power));
    }
    let unreadable = |kind| kind == HotspotKind::Unreadable;
    if file.tokens.counts.contains_key(&HotspotKind::Unreadable) || has_hotspots(unreadable) {
        let text = format!("{}: the token scan could not read all of it", file.path);
        reasons.at(RiskClass::UnknownTokens, text, places(file, unreadable));
    }
}

/// The hotspots of some kinds, as places.
pub(super) fn places(file: &FileFacts, wanted: impl Fn(HotspotKind) -> bool) -> impl Iterator<Item = Place> {
    file.tokens
        .hotspots
        .iter()
        .filter(move |hotspot| wanted(hotspot.kind))
        .map(|hotspot| Place { span: hotspot.span.clone(), what: hotspot.what.clone() })
}
