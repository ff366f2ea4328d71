//! A crate about which nothing is known but its name and version.

use mfaas_ident::{CrateName, Digest};
use mfaas_rules::crate_facts::*;
use semver::Version;

pub(crate) fn clean(name: &CrateName, version: &Version) -> CrateReport {
    let geiger = GeigerReport::Counted { counts: GeigerCounts::default(), forbids_unsafe: true };
    let tokens = TokenReport { tokens: 1, ..TokenReport::default() };
    let path = "src/lib.rs".to_owned();
    let files = vec![FileFacts { path, role: Role::Library, bytes: 1, geiger, tokens }];
    let summary = summarise(&files, &[], false, false);
    CrateReport {
        revision: FACTS_REVISION,
        name: name.clone(),
        version: version.clone(),
        checksum: Digest::of(format!("{name} {version}").as_bytes()),
        features: Vec::new(),
        target: "x86_64-unknown-linux-gnu".to_owned(),
        archive: ArchiveFacts {
            bytes: 1,
            unpacked_bytes: 1,
            files: 1,
            binaries: Vec::new(),
            native_sources: Vec::new(),
            unread: Vec::new(),
        },
        source: CrateFacts {
            package: Some(format!("{name} {version}")),
            files,
            exported_macros: Vec::new(),
            proc_macro: false,
            build_script: false,
            unread: Vec::new(),
            summary,
        },
        compiler: CompilerVerdict::Clean,
        touches: TouchReport { classes: Vec::new(), unread: Vec::new() },
        shapes: ShapeReport { shapes: Vec::new(), unread: Vec::new() },
        licence: LicenceFacts { expression: Some("MIT".to_owned()), file: None },
        kind: KindFacts { proc_macro: false, build_script: false, links: None, edition: None },
        published: None,
        yanked: Some(false),
        needs: Vec::new(),
    }
}
