//! What a review is compared with, in rows.

use mfaas_catalog::{Baseline, Comparison, ReviewDelta};
use mfaas_ident::Digest;
use mfaas_rules::People;
use mfaas_rules::crate_facts::{CrateDelta, Volume, Volumes};
use mfaas_rules::review::ReviewState;

use crate::fixture::World;
use crate::reviews::{acquirer, report, reviewing, toolchain, waiting};

/// A version of left-pad, of the seed.
async fn shipped(world: &World, version: &str) {
    let text = "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
        VALUES ('left-pad', $1, $2, '{std}', true, 'allowed', 'seed', 'shipped')";
    sqlx::query(text)
        .bind(version)
        .bind(Digest::of(version.as_bytes()).to_string())
        .execute(&world.sql)
        .await
        .unwrap();
}

fn volumes() -> Volumes {
    Volumes { code: Volume { files: 2, lines: 70 }, other: Volume::default(), unkept: 1 }
}

fn delta(base: &Baseline) -> CrateDelta {
    serde_json::from_value(serde_json::json!({
        "revision": 1,
        "from": { "version": base.version, "checksum": base.checksum, "features": [], "unkept": 0 },
        "to": { "version": "1.2.3", "checksum": report().checksum, "features": [], "unkept": 0 },
        "code": { "files": 1, "added": 2, "removed": 1 }, "other": { "files": 0, "added": 0, "removed": 0 },
        "files": [{ "path": "src/lib.rs", "change": "changed", "code": true, "added": 2, "removed": 1 }],
        "facts": {
            "touches": [], "spots": [], "geiger": { "from": 0, "to": null }, "compiler": { "from": "unknown", "to": { "errors": 1 } },
            "shapes": { "from": 0, "to": 0 }, "proc_macro": { "from": false, "to": false },
            "build_script": { "from": false, "to": true }, "links": { "from": null, "to": null },
            "edition": { "from": null, "to": "2021" }, "licence": { "from": null, "to": null },
            "features": { "came": [], "went": [] }, "macros": { "came": [], "went": [] },
            "binaries": { "came": [], "went": [] }, "native_sources": { "came": [], "went": [] },
            "needs_came": [], "needs_went": [], "needs_changed": [],
        },
    }))
    .unwrap()
}

async fn read(world: &World, review: i64) -> Option<ReviewDelta> {
    world.server.delta_of_review(review).await.unwrap()
}

#[tokio::test]
async fn a_review_is_compared_once_and_a_revoked_version_stands_no_more() {
    let world = World::new().await;
    for version in ["0.9.0", "1.2.0", "1.2.3", "2.0.0"] {
        shipped(&world, version).await;
    }
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    assert_eq!(read(&world, review).await, None, "nobody has compared");
    let mut session = acquirer(&world).await;
    let open = session.uncompared(&toolchain(), 10).await.unwrap();
    assert_eq!((open.len(), open[0].review, open[0].version.to_string()), (1, review, "1.2.3".to_owned()));
    assert!(
        session.uncompared(&mfaas_ident::ToolchainId(Digest::of(b"other")), 10).await.unwrap().is_empty()
    );
    let base = session.baseline(&open[0], &toolchain()).await.unwrap().unwrap();
    assert_eq!((base.version.to_string(), base.is_reviewed()), ("1.2.0".to_owned(), false));

    // What was never stored cannot be compared with.
    let comparison = Comparison::Delta { key: Digest::of(b"delta"), delta: Box::new(delta(&base)) };
    session.compared(review, Some(&volumes()), Some(&base), &comparison).await.unwrap_err();
    let mut old = report();
    (old.version, old.checksum) = (base.version.clone(), base.checksum);
    session.store_report(&Digest::of(b"old report"), &old, &[]).await.unwrap();
    assert_eq!(session.reports_about(&base.checksum).await.unwrap()[0].1, old);
    session.compared(review, Some(&volumes()), Some(&base), &comparison).await.unwrap();
    let problem = Comparison::Problem("another word".to_owned());
    session.compared(review, None, None, &problem).await.unwrap();
    assert!(session.uncompared(&toolchain(), 10).await.unwrap().is_empty());
    assert_eq!(session.crate_delta(&Digest::of(b"delta")).await.unwrap(), Some(delta(&base)));

    let found = read(&world, review).await.unwrap();
    assert_eq!(found.delta, Some(delta(&base)), "the first word counts");
    assert_eq!((found.volumes, found.baseline.as_ref()), (Some(volumes()), Some(&base)));
    assert_eq!((found.stands, found.problem.as_str()), (true, ""));
    world.damage("UPDATE crates SET status = 'revoked' WHERE version = '1.2.0'").await;
    assert!(!read(&world, review).await.unwrap().stands);
    world.damage("UPDATE crates SET status = 'allowed', expires_at = now() WHERE version = '1.2.0'").await;
    assert!(!read(&world, review).await.unwrap().stands);
    world.damage("UPDATE crate_deltas SET delta = '{\"revision\": 2}'").await;
    let found = read(&world, review).await.unwrap();
    assert!(found.delta.is_none() && found.problem.contains("another release"), "{found:?}");
}

#[tokio::test]
async fn without_a_baseline_there_is_a_reason() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::Two).await;
    let mut session = acquirer(&world).await;
    let open = session.uncompared(&toolchain(), 10).await.unwrap();
    assert_eq!(session.baseline(&open[0], &toolchain()).await.unwrap(), None);
    let problem = Comparison::Problem("no other version\u{1b}".to_owned());
    session.compared(review, Some(&volumes()), None, &problem).await.unwrap();
    let found = read(&world, review).await.unwrap();
    assert_eq!((found.delta, found.problem.as_str()), (None, "no other version\\u{1b}"));
    assert_eq!((found.baseline, found.stands), (None, false));
    assert!(world.server.reviews(Some(ReviewState::Open), 0, 10).await.unwrap()[0].id == review);
}
