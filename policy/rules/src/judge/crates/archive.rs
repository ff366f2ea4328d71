//! What lies in the archive besides Rust, and what the index says.

use super::RiskClass;
use super::reason::Reasons;
use crate::crate_facts::{BinaryKind, CrateReport};

pub(super) fn judge(report: &CrateReport, reasons: &mut Reasons) {
    for binary in &report.archive.binaries {
        let what = match binary.kind {
            BinaryKind::Elf => "an ELF file",
            BinaryKind::Pe => "a Windows executable",
            BinaryKind::MachO => "a Mach-O file",
            BinaryKind::Wasm => "a WebAssembly module",
            BinaryKind::Ar => "a static library",
            BinaryKind::Unknown => "no text",
        };
        reasons.add(RiskClass::Binary, format!("{} is {what}", binary.path));
    }
    for path in &report.archive.native_sources {
        reasons.add(RiskClass::NativeSource, format!("{path} is source for another compiler"));
    }
    report.archive.unread.iter().for_each(|what| reasons.add(RiskClass::Unread, what));
    match report.yanked {
        Some(false) => {}
        Some(true) => reasons.add(RiskClass::Yanked, "its publisher took it back"),
        None => reasons.add(RiskClass::YankedUnknown, "it is not known whether its publisher has yanked it"),
    }
}
