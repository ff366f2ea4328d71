//! The audit chain, and the checker of invariants, against damage.

use mfaas_attest::{AuditHead, PrivateKey, Purpose, Trust};
use mfaas_blobs::Blobs;
use mfaas_catalog::{ChainError, invariants};

use crate::fixture::World;

#[tokio::test]
async fn the_chain_holds_and_every_kind_of_damage_shows() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    world.admitted("hello", "two").await;
    let head = world.server.verify_audit(AuditHead::START).await.unwrap().unwrap();
    assert_eq!(i64::try_from(head.row).unwrap(), world.count("SELECT count(*) FROM audit_log").await);
    let page = world.server.audit_after(2, 3).await.unwrap();
    assert_eq!(page.iter().map(|row| row.seq).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(page[0].role, "mfaas_builder");

    // Whoever has computed the chain goes on from there.
    world.admitted("hello", "three").await;
    let later = world.server.verify_audit(head).await.unwrap().unwrap();
    assert!(later.row > head.row);
    let another = AuditHead { hash: AuditHead::START.hash, ..head };
    let changed = Err(ChainError::Changed { seq: head.row + 1 });
    assert_eq!(
        world.server.verify_audit(another).await.unwrap(),
        changed,
        "it is not the same chain any more"
    );

    world.damage("UPDATE audit_log SET actor = 'nobody' WHERE seq = 3").await;
    assert_eq!(
        world.server.verify_audit(AuditHead::START).await.unwrap(),
        Err(ChainError::Changed { seq: 3 })
    );
    // Even with a hash that fits the changed row, the next one gives it away.
    world
        .damage(
            "UPDATE audit_log a SET hash = audit_hash((SELECT hash FROM audit_log WHERE seq = 2), seq, at, role,
                 actor, action, tenant, subject, detail) WHERE seq = 3",
        )
        .await;
    assert_eq!(
        world.server.verify_audit(AuditHead::START).await.unwrap(),
        Err(ChainError::Changed { seq: 4 })
    );
}

#[tokio::test]
async fn a_removed_row_and_a_cut_end_show() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    let last = u64::try_from(world.count("SELECT max(seq) FROM audit_log").await).unwrap();
    world.damage("DELETE FROM audit_log WHERE seq = (SELECT max(seq) FROM audit_log)").await;
    let cut = Err(ChainError::Cut { expected: last, found: last - 1 });
    assert_eq!(world.server.verify_audit(AuditHead::START).await.unwrap(), cut);
    world.damage("DELETE FROM audit_log WHERE seq = 2").await;
    let gap = Err(ChainError::Gap { expected: 2, found: 3 });
    assert_eq!(world.server.verify_audit(AuditHead::START).await.unwrap(), gap);
}

#[tokio::test]
async fn the_checker_finds_what_is_unsigned_and_unrecorded() {
    let world = World::new().await;
    let blobs_dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file://{}", blobs_dir.path().display())).unwrap();
    blobs.mark().await.unwrap();
    let trust = Trust::of_key(Purpose::Artifact, PrivateKey::generate().unwrap().public());
    world.upload("waits", "key", b"source").await;
    let found = invariants::check(&world.server, &blobs, &trust).await.unwrap();
    assert_eq!(found, [], "nothing is wrong with a queued upload");

    let claimed = world.claim("one").await;
    world.builder.finish_refused(&claimed.lease, mfaas_delivery::Stage::Audit, &[]).await.unwrap();
    world.admitted("hello", "one").await;
    let found = invariants::check(&world.server, &blobs, &trust).await.unwrap();
    let kinds: Vec<_> = found.iter().map(|v| v.invariant).collect();
    assert_eq!(kinds, ["I3", "I3"], "no signature and no blob: {found:?}");

    world.damage("DELETE FROM deployment_events WHERE seq = 2").await;
    world
        .damage("UPDATE builds SET claim = claim || '{\"artifact\": \"other\"}' WHERE claim IS NOT NULL")
        .await;
    world.damage("DELETE FROM audit_log WHERE action = 'version.admitted'").await;
    let found = invariants::check(&world.server, &blobs, &trust).await.unwrap();
    for invariant in ["I1", "I2", "I4", "I8"] {
        assert!(found.iter().any(|v| v.invariant == invariant), "{invariant} is not among {found:?}");
    }
}
