//! What a report lists when it cannot list all.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_delivery::{REPORT_REFUSED_MAX, RefusedVersion};
use mfaas_ident::{Digest, FunctionName, TenantName, VersionNumber};
use mfaas_rules::codes;

use super::Status;

#[test]
fn what_an_alias_names_is_listed_before_the_rest() {
    let rows: Vec<RefusedVersion> = (1..=3_000)
        .map(|number| RefusedVersion {
            tenant: TenantName::parse("acme").unwrap(),
            function: FunctionName::parse("hello").unwrap(),
            version: VersionNumber::new(number).unwrap(),
            digest: Digest::of(b"image"),
            code: codes::MF0704,
            message: String::new(),
        })
        .collect();
    let mut status = Status::default();
    status.list(rows.iter(), |row| row.version.get() % 1_000 == 0);
    assert_eq!(
        (status.refused_first, status.refused_total, status.refused.len()),
        (3, 3_000, REPORT_REFUSED_MAX)
    );
    let versions: Vec<u32> = status.refused.iter().map(|row| row.version.get()).take(4).collect();
    assert_eq!(versions, [1_000, 2_000, 3_000, 1]);
}
