#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::{
    Access, AliasName, Bindings, Callers, Class, DeploymentId, Digest, Isolation, ToolchainId, VersionNumber,
};
use mfaas_wire::VersionView;

use super::previous;

fn version(number: u32, live: bool, revoked: bool) -> VersionView {
    VersionView {
        version: VersionNumber::new(number).unwrap(),
        deployment: DeploymentId(uuid::Uuid::nil()),
        artifact_digest: Digest::of(b"a"),
        source_digest: Digest::of(b"s"),
        toolchain: ToolchainId(Digest::of(b"t")),
        created_at: chrono::DateTime::UNIX_EPOCH,
        artifact_bytes: 1,
        statement_digest: Digest::of(b"e"),
        abi_version: 1,
        policy_version: 1,
        budget_us: 1000,
        memory_bytes: 4096,
        idempotent: false,
        isolation: Isolation::Shared,
        access: Access::Tenant,
        callers: Callers::new(),
        class: Class::Micro,
        bindings: Bindings::new(),
        handler: "handle".to_owned(),
        revoked,
        aliases: if live { vec![AliasName::live()] } else { vec![] },
    }
}

#[test]
fn the_version_before_is_meant_and_a_revoked_one_is_passed_over() {
    let versions = [
        version(4, false, false),
        version(3, true, false),
        version(2, false, true),
        version(1, false, false),
    ];
    assert_eq!(previous(&versions, &AliasName::live()).unwrap().get(), 1);
    assert!(previous(&[version(1, true, false)], &AliasName::live()).is_err());
    assert!(previous(&[version(1, false, false)], &AliasName::live()).is_err());
}
