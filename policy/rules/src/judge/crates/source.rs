//! What its source is and takes in besides unsafe code: scripts, macros, interfaces, hidden text.

use super::RiskClass;
use super::count::places;
use super::reason::{Place, Reasons};
use crate::crate_facts::{
    ApiClass, ApiTouch, CrateReport, ExportedMacro, FileFacts, HotspotKind, Role, ShapeReport,
};
use crate::profiles::crate_rules::API;

pub(super) fn judge(report: &CrateReport, reasons: &mut Reasons) {
    identity(report, reasons);
    runs(report, reasons);
    report.source.exported_macros.iter().for_each(|exported| exported_macro(exported, reasons));
    report.source.unread.iter().for_each(|what| reasons.add(RiskClass::Unread, what));
    for file in report.source.files.iter().filter(|file| file.role != Role::Aside) {
        hotspots(file, reasons);
    }
    report.touches.classes.iter().for_each(|touch| api(touch, reasons));
    shapes(&report.shapes, reasons);
    for what in &report.touches.unread {
        reasons.add(RiskClass::Unread, format!("what it touches: {what}"));
    }
}

/// The directory's Cargo.toml names what was asked for, and is of the kind that it was said to be.
fn identity(report: &CrateReport, reasons: &mut Reasons) {
    let asked = format!("{} {}", report.name, report.version);
    match &report.source.package {
        Some(package) if *package == asked => {}
        Some(package) => {
            reasons.add(RiskClass::Identity, format!("its Cargo.toml calls it {package:?}, not {asked}"));
        }
        None => reasons.add(RiskClass::Identity, "it has no readable Cargo.toml"),
    }
}

fn runs(report: &CrateReport, reasons: &mut Reasons) {
    if report.kind.build_script || report.source.build_script {
        reasons.add(RiskClass::BuildScript, "a program of its own runs on the build machine");
    }
    if report.kind.proc_macro || report.source.proc_macro {
        reasons.add(RiskClass::ProcMacro, "it is compiled into the compiler and writes code there");
    }
    if let Some(links) = &report.kind.links {
        reasons.add(RiskClass::NativeLinks, format!("it links the native library {links:?}"));
    }
}

fn exported_macro(exported: &ExportedMacro, reasons: &mut Reasons) {
    let name = &exported.name;
    let mut add = |is: bool, risk: RiskClass, what: &str| {
        if is {
            let place = Place { span: exported.span.clone(), what: format!("{name}!") };
            reasons.at(risk, format!("{name}! {what}"), std::iter::once(place));
        }
    };
    add(!exported.powers.is_empty(), RiskClass::MacroPower, "hands out power in its user's crate");
    add(exported.wraps_caller, RiskClass::MacroWrapsCaller, "puts its caller's tokens inside of unsafe");
    add(exported.passes_attributes, RiskClass::MacroAttributes, "puts its caller's attributes on items");
}

/// Every kind of hotspot has a class, or is counted as unsafe code.
fn risk_of(kind: HotspotKind) -> Option<RiskClass> {
    match kind {
        HotspotKind::Unsafe
        | HotspotKind::UnsafeAttribute
        | HotspotKind::Linkage
        | HotspotKind::ExternBlock
        | HotspotKind::StaticMut
        | HotspotKind::MachineCode
        | HotspotKind::Unreadable => None,
        HotspotKind::Include | HotspotKind::ModulePath => Some(RiskClass::Include),
        HotspotKind::BuildInput => Some(RiskClass::BuildInput),
        HotspotKind::OutDir => Some(RiskClass::OutDir),
        HotspotKind::Quote => Some(RiskClass::Quote),
        HotspotKind::WordInLiteral => Some(RiskClass::WordInLiteral),
        HotspotKind::Invisible => Some(RiskClass::Invisible),
    }
}

/// The classes that hotspots are collected into.
const OF_HOTSPOTS: [RiskClass; 6] = [
    RiskClass::Include,
    RiskClass::BuildInput,
    RiskClass::OutDir,
    RiskClass::Quote,
    RiskClass::WordInLiteral,
    RiskClass::Invisible,
];

fn hotspots(file: &FileFacts, reasons: &mut Reasons) {
    for risk in OF_HOTSPOTS {
        let wanted = |kind: HotspotKind| risk_of(kind) == Some(risk);
        let counted = file.tokens.counts.iter().filter(|(kind, _)| wanted(**kind));
        let count: usize = counted.map(|(_, count)| *count).sum();
        if count > 0 || file.tokens.hotspots.iter().any(|hotspot| wanted(hotspot.kind)) {
            let text = format!("{}: {} ({count})", file.path, risk.label());
            reasons.at(risk, text, places(file, wanted));
        }
    }
}

fn api(touch: &ApiTouch, reasons: &mut Reasons) {
    let why = API.iter().find(|row| row.class == touch.class).map_or("", |row| row.why);
    let risk = api_risk(touch.class);
    let places =
        touch.hotspots.iter().map(|hotspot| Place { span: hotspot.span.clone(), what: hotspot.path.clone() });
    reasons.at(risk, format!("it {} in {} places: {why}", risk.label(), touch.count), places);
}

fn shapes(found: &ShapeReport, reasons: &mut Reasons) {
    for shape in &found.shapes {
        let place = shape.span.iter().map(|span| Place { span: span.clone(), what: shape.lint.clone() });
        reasons.at(RiskClass::SoundnessShape, format!("{}: {}", shape.lint, shape.text), place);
    }
    for what in &found.unread {
        reasons.add(RiskClass::Unread, format!("shapes of soundness holes: {what}"));
    }
}

/// The class of risk; a test compares its effect with the row of the profile.
pub(super) fn api_risk(class: ApiClass) -> RiskClass {
    match class {
        ApiClass::Fs => RiskClass::ApiFs,
        ApiClass::Net => RiskClass::ApiNet,
        ApiClass::Process => RiskClass::ApiProcess,
        ApiClass::Env => RiskClass::ApiEnv,
        ApiClass::Stdio => RiskClass::ApiStdio,
        ApiClass::Thread => RiskClass::ApiThread,
        ApiClass::Time => RiskClass::ApiTime,
        ApiClass::GlobalState => RiskClass::ApiGlobalState,
    }
}
