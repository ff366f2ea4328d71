//! Performance isolation as people see it. What a node says is hostile until sanitised.

use chrono::{DateTime, Utc};
use mfaas_catalog::SiteSettings;
use mfaas_delivery::{ControllerReport, CpuUsed, IsolationReport};
use mfaas_ident::sanitise_line;
use mfaas_wire::{ControllerView, IsolationView, SettingsRefusedView, SiteIsolationView};

/// What a node said at that moment.
pub(crate) fn isolation_view(at: DateTime<Utc>, report: IsolationReport) -> IsolationView {
    let refused = report.refused.map(|refused| SettingsRefusedView {
        revision: refused.revision,
        code: sanitise_line(&refused.code, 16),
        message: sanitise_line(&refused.message, 300),
    });
    IsolationView { at, controller: report.controller.map(controller_view), refused }
}

fn controller_view(report: ControllerReport) -> ControllerView {
    let used = report.used.as_ref().map(CpuUsed::in_cores);
    ControllerView {
        mode: report.mode.to_string(),
        off: report.off,
        cores: report.cores,
        buffer_cores: report.buffer_cores,
        idle_cores: report.idle_cores,
        secondary_cores: report.secondary_cores,
        primary_used_cores: used.map(|(primary, _)| primary),
        secondary_used_cores: used.map(|(_, secondary)| secondary),
        memory_bytes: report.memory_bytes,
        killed: report.killed,
        revision: report.revision,
    }
}

/// What the site wants.
pub(crate) fn site_isolation_view(found: Option<SiteSettings>) -> SiteIsolationView {
    match found {
        Some(found) => SiteIsolationView {
            revision: found.revision,
            settings: found.settings,
            set_by: Some(found.set_by),
            set_at: Some(found.set_at),
        },
        None => SiteIsolationView { revision: 0, settings: Default::default(), set_by: None, set_at: None },
    }
}
