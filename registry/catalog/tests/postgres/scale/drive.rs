//! What programs ask by themselves and pages ask for, of the filled database.

use std::time::Duration;

use chrono::{SubsecRound as _, TimeDelta, Utc};
use mfaas_attest::{AuditHead, KeyId};
use mfaas_blobs::Blobs;
use mfaas_catalog::{
    CatalogError, Claim, Held, IssuedCall, NewRequest, NewSchedule, Period, Range, Retention, RunEnd,
    RunOutcome, UsageQuery, WatchedChanges,
};
use mfaas_delivery::{
    Availability, Ban, BanNotice, DeploymentState, Event, IsolationReport, IsolationSettings, LoadReport,
    LogBatch, LogLevel, LogLine, NODE_PROTOCOL, Stage, UsageReport, UsageRow,
};
use mfaas_ident::{
    AssetContent, CallScope, CrateName, DataAccess, Digest, Epoch, FunctionName, NodeName, ResourceKind,
    ScheduleName, TenantName, ToolchainId, TriggerName, VersionNumber,
};
use mfaas_rules::review::ReviewState;
use uuid::Uuid;

use crate::fixture::{LONG, World, actor, claim, function, person, tenant};
use crate::resources::resource;
use crate::reviews::acquirer;

/// Pages are as long as the server makes them.
const PAGE: u32 = 101;

/// The statement ran. That what was filled in is no real report, review or set is no matter here.
fn ran<T>(result: Result<T, CatalogError>) {
    match result {
        Ok(_)
        | Err(
            CatalogError::Database(_)
            | CatalogError::NotFound { .. }
            | CatalogError::Conflict { .. }
            | CatalogError::CallTokensOver,
        ) => {}
        Err(error) => panic!("{error:?}"),
    }
}

/// Everything once. `turn` keeps what is made apart from what the turn before made.
pub(super) async fn everything(world: &World, turn: &str) {
    builds(world, turn).await;
    registry(world).await;
    people(world, turn).await;
    call_tokens(world, turn).await;
    machines(world, turn).await;
    resources(world, turn).await;
    schedules(world).await;
    triggers(world).await;
    series(world).await;
    reviews(world, turn).await;
    acquires(world).await;
    upkeep(world).await;
}

async fn builds(world: &World, turn: &str) {
    let begun = world.server.ended_until_now().await.unwrap();
    for ending in ["built", "refused", "released", "postponed", "lost"] {
        world.upload("mine", &format!("{ending} {turn}"), ending.as_bytes()).await;
        let claimed = world.builder.claim("one", LONG).await.unwrap().unwrap();
        let lease = &claimed.lease;
        world.builder.heartbeat(lease, LONG).await.unwrap();
        let event = Event::state(Stage::Compile, DeploymentState::Building);
        world.builder.append_events(lease, &[event]).await.unwrap();
        match ending {
            "built" => world.builder.finish_built(lease, &claim(turn.as_bytes())).await.unwrap(),
            "refused" => world.builder.finish_refused(lease, Stage::Audit, &[]).await.unwrap(),
            "released" => world.builder.release(lease).await.unwrap(),
            "postponed" => drop(world.builder.postpone(lease, "a full disk").await.unwrap()),
            _ => world.builder.give_up_attempt(lease).await.unwrap(),
        }
    }
    // What was given back is in nobody's way.
    world.damage("UPDATE builds SET finished_at = now() WHERE tenant = 'acme' AND finished_at IS NULL").await;
    world.builder.builder_is("one", None).await.unwrap();
    world.server.builders().await.unwrap();
    world.server.builds_agreement().await.unwrap();
    world.server.build_queue().await.unwrap();
    world.server.queue_places(&[]).await.unwrap();
    let times = world.server.stage_times(begun, Duration::ZERO).await.unwrap();
    assert!(!times.queued.is_empty(), "none has ended");
    world.server.count_postponed_builds().await.unwrap();
    world.server.deployment_counts().await.unwrap();
}

async fn registry(world: &World) {
    let artifact = Digest::of(b"artifact110");
    // The tenant with most, and one with few.
    for (name, one) in [("t0", "f1"), ("t150", "f999999")] {
        let (tenant, one) = (TenantName::parse(name).unwrap(), function(one));
        let found = world.server.functions(&tenant, None, PAGE).await.unwrap();
        let last = found.last().map(|found| found.name.clone());
        ran(world.server.functions(&tenant, last.as_ref(), PAGE).await);
        ran(world.server.function(&tenant, &one).await);
        for before in [None, Some(VersionNumber::new(50).unwrap())] {
            ran(world.server.versions(&tenant, &one, before, PAGE).await);
        }
        ran(world.server.version(&tenant, &one, VersionNumber::new(10).unwrap()).await);
        ran(world.server.trace_of_version(&tenant, &one, VersionNumber::new(10).unwrap()).await);
        ran(world.server.aliases(&tenant, &one).await);
        ran(world.server.call_graph(&tenant, &one, 201).await);
        ran(world.server.direct_callers(&tenant, &one, 2_001, PAGE).await);
        for of in [None, Some(&one)] {
            let found = world.server.deployments(&tenant, of, None, PAGE).await.unwrap();
            let before = found.last().map(|found| found.created_at);
            ran(world.server.deployments(&tenant, of, before, PAGE).await);
            for deployment in found.iter().take(1) {
                ran(world.server.deployment(&tenant, deployment.id).await);
                ran(world.server.events_after(&tenant, deployment.id, 0, 200).await);
                ran(world.server.requests_of(deployment.id).await);
            }
        }
        ran(world.server.statement_of(&tenant, &artifact, None).await);
        ran(world.server.owns_artifact(&tenant, &artifact).await);
        usage(world, Some(&tenant), Some(&one)).await;
        usage(world, Some(&tenant), None).await;
        for after in [0, 1_000] {
            ran(world.server.logs_after(&tenant, &one, after, 200).await);
        }
        ran(world.server.bans(Some(&tenant), Some(&one), PAGE).await);
        ran(world.server.bans(Some(&tenant), None, PAGE).await);
    }
    usage(world, None, None).await;
    ran(world.server.is_servable(&artifact).await);
    ran(world.server.statement(&artifact).await);
    for held in [Held::Nothing, Held::Epoch(Epoch(100)), Held::Set(artifact)] {
        ran(world.server.serving_set_unless(&held).await);
    }
    ran(world.server.serving_set_digest().await);
    ran(world.server.key_list().await);
    ran(world.server.call_keys().await);
    ran(world.server.audit_after(100, PAGE).await);
    let newest = world.server.audit_before(None, PAGE).await.unwrap();
    ran(world.server.audit_before(newest.last().map(|row| row.seq), PAGE).await);
    let seen = AuditHead { row: newest[0].seq.unsigned_abs() - 50, hash: artifact };
    ran(world.server.verify_audit(seen).await);
}

/// The last day, as the page shows it.
async fn usage(world: &World, tenant: Option<&TenantName>, function: Option<&FunctionName>) {
    let (since, until) = (Utc::now() - TimeDelta::hours(24), Utc::now());
    let query = UsageQuery { since, until, tenant, function, by: Period::Total, limit: 10_000 };
    world.server.usage(&query).await.unwrap();
}

async fn people(world: &World, turn: &str) {
    let token = world.reviewer(&format!("reviewer-{turn}")).await;
    ran(world.server.tokens(None, PAGE).await);
    ran(world.server.tokens(Some(&TenantName::parse("t150").unwrap()), PAGE).await);
    ran(world.server.authenticate(&Digest::of(b"secret1")).await);
    ran(world.server.is_token_good(uuid::Uuid::nil()).await);
    let cookie = Digest::of(turn.as_bytes());
    world.server.open_session(&cookie, token.id, LONG).await.unwrap();
    assert!(world.server.session_token(&cookie).await.unwrap().is_some());
    world.server.close_session(&cookie).await.unwrap();
    assert!(world.server.take_sign_in_answer(&cookie).await.unwrap());
    world.server.revoke_token(&actor(), Some(&tenant()), token.id).await.unwrap();
    let version = world.admitted(&format!("mine-{turn}"), &format!("admitted {turn}")).await;
    let mine = function(&format!("mine-{turn}"));
    let live = mfaas_ident::AliasName::parse("live").unwrap();
    world.server.put_alias(&actor(), &tenant(), &mine, &live, version).await.unwrap();
    let digest = Digest::of(format!("admitted {turn}").as_bytes());
    world.server.revoke_artifact(&actor(), &digest, "evil").await.unwrap();
    world.server.delete_function(&actor(), &tenant(), &mine).await.unwrap();
}

async fn call_tokens(world: &World, turn: &str) {
    let (shop, busy) = (person(&format!("shop-{turn}")), TenantName::parse("t150").unwrap());
    ran(world.server.call_tokens(&busy, PAGE).await);
    ran(world.server.revoke_caller(&actor(), &busy, &person("c150")).await);
    let now = Utc::now().trunc_subsecs(0);
    for (id, revokes_it) in [(Uuid::new_v4(), true), (Uuid::new_v4(), false)] {
        let issued = IssuedCall {
            id,
            tenant: &tenant(),
            caller: &shop,
            functions: &CallScope::parse(&["pay"]).unwrap(),
            issued_at: now,
            expires_at: now + TimeDelta::hours(1),
            key: KeyId(Digest::of(b"key")),
        };
        world.server.caller_revoked_until(&tenant(), &shop).await.unwrap();
        world.server.record_call_token(&actor(), &issued).await.unwrap();
        if revokes_it {
            world.server.revoke_call_token(&actor(), &tenant(), id).await.unwrap();
        }
    }
    world.server.revoke_caller(&actor(), &tenant(), &shop).await.unwrap();
}

/// What charts show of the last hour, day and month.
async fn series(world: &World) {
    let (tenant, name, now) = (TenantName::parse("t0").unwrap(), function("f1"), Utc::now());
    for ago in [TimeDelta::hours(1), TimeDelta::days(1), TimeDelta::days(30)] {
        let range = Range::of(now - ago, now, now).unwrap();
        for version in [None, VersionNumber::new(100).ok()] {
            assert!(
                !world.server.call_series(&tenant, &name, version, &range).await.unwrap().steps.is_empty()
            );
        }
        assert!(!world.server.tenant_series(Some(&tenant), &range).await.unwrap().steps.is_empty());
        assert_eq!(world.server.tenant_series(None, &range).await.unwrap().tenants.len(), 5);
        assert!(world.server.node_series(&range).await.unwrap().0.len() >= 200);
        assert!(!world.server.build_series(&range).await.unwrap().is_empty());
        assert!(world.server.steps_heard(&range).await.unwrap().len() > 50);
    }
}

async fn machines(world: &World, turn: &str) {
    let node = crate::usage::joined(world, &format!("node-{turn}")).await;
    ran(world.server.nodes().await);
    ran(world.server.node_by_certificate(&Digest::of(b"node1")).await);
    ran(world.server.directives(&node).await);
    ran(world.server.count_nodes(Availability::Active).await);
    ran(world.server.count_bans().await);
    let leaving = crate::usage::joined(world, &format!("leaving-{turn}")).await;
    world.server.remove_node(&actor(), &leaving).await.unwrap();
    world.server.set_availability(&actor(), &node, Availability::Cordoned).await.unwrap();
    let (boot, version) = (Uuid::new_v4(), VersionNumber::new(100).unwrap());
    let (tenant, name) = (TenantName::parse("t0").unwrap(), function("f1"));
    // A row, so that what is done with rows is seen.
    let row = UsageRow {
        tenant: tenant.clone(),
        function: name.clone(),
        version,
        calls: 1,
        cpu_ns: 1,
        run_ns: 1,
        queue_ns: 1,
        run_ns_max: 1,
        memory_bytes_max: 1,
        kills: std::collections::BTreeMap::new(),
        runs: vec![1],
    };
    let rows = vec![row];
    ran(world
        .server
        .record_usage(&node, &UsageReport { protocol: NODE_PROTOCOL, boot, sequence: 1, rows })
        .await);
    let load = LoadReport {
        protocol: NODE_PROTOCOL,
        interval_ms: 1,
        cpu_ns: 1,
        cores: 1,
        running: 1,
        waiting: 1,
        processes: 1,
        pools: 1,
        pools_busy: 1,
        resident: 1,
        resident_bytes: 1,
    };
    world.server.record_load(&node, &load).await.unwrap();
    let report = IsolationReport { protocol: NODE_PROTOCOL, controller: None, refused: None };
    world.server.record_isolation(&node, &report).await.unwrap();
    let settings = IsolationSettings { off: Some(false), ..IsolationSettings::default() };
    world.server.set_site_isolation(&actor(), &settings).await.unwrap();
    ran(world.server.site_isolation().await);
    assert!(world.server.isolation_samples(&NodeName::parse("n1").unwrap()).await.unwrap().len() > 300);
    let line = LogLine {
        at: Utc::now(),
        tenant: tenant.clone(),
        function: name.clone(),
        version,
        level: LogLevel::Info,
        text: "hello".to_owned(),
    };
    let batch = LogBatch { protocol: NODE_PROTOCOL, boot, first: 0, dropped: 0, lines: vec![line] };
    world.server.append_logs(&node, &batch).await.unwrap();
    let (crashes, since) = (3, Utc::now());
    let ban = Ban { tenant, function: name, version, digest: Digest::of(b"artifact200"), crashes, since };
    let told =
        world.server.record_ban(&node, &BanNotice { protocol: NODE_PROTOCOL, notice_id: boot, ban }).await;
    ran(told);
    ran(world.server.lift_ban(&actor(), 1).await);
    let _: NodeName = node;
}

/// What an operator and a tenant look at, and grants of what is bound by most.
async fn resources(world: &World, turn: &str) {
    let (shared, made) = (resource("r0"), resource(&format!("made-{turn}")));
    world.server.create_resource(&actor(), &made, ResourceKind::Kv).await.unwrap();
    let content = AssetContent { digest: Digest::of(turn.as_bytes()), bytes: 1 };
    let stored = std::future::ready(Ok::<_, mfaas_catalog::CatalogError>(()));
    let asset = resource(&format!("asset-{turn}"));
    world.server.create_asset(&actor(), &asset, content, stored).await.unwrap();
    assert_eq!(world.server.asset(&content.digest).await.unwrap(), Some(content));
    for after in [None, Some(&shared)] {
        assert!(!world.server.resources(after, PAGE, 21).await.unwrap().is_empty());
    }
    let busy = TenantName::parse("t0").unwrap();
    for tenant in [None, Some(&busy)] {
        assert_eq!(world.server.resource(&shared, tenant, PAGE).await.unwrap().1.len(), PAGE as usize);
    }
    assert!(!world.server.resources_of_tenant(&busy, None, PAGE).await.unwrap().is_empty());
    for resource in [&shared, &made] {
        for access in DataAccess::ALL {
            world.server.grant_resource(&actor(), resource, &busy, access).await.unwrap();
        }
        world.server.revoke_resource(&actor(), resource, &busy).await.unwrap();
    }
    // The next turn finds what this one found.
    world.server.grant_resource(&actor(), &shared, &busy, DataAccess::Read).await.unwrap();
}

/// What a tenant says, what servers claim again and again, and how that ends.
async fn schedules(world: &World) {
    let (busy, called, name) =
        (TenantName::parse("t0").unwrap(), function("f1"), ScheduleName::parse("mine").unwrap());
    let new = NewSchedule { name: &name, cron: "* * * * *", body: "" };
    world.server.set_schedule(&actor(), &busy, &called, new, |_, now| Some(now)).await.unwrap();
    assert!(!world.server.schedules(&busy, &called).await.unwrap().is_empty());
    let lost_after = TimeDelta::hours(1);
    assert_eq!(
        world.server.claim_schedule(std::slice::from_ref(&busy), lost_after, |_, _| None).await.unwrap(),
        None
    );
    let claimed = world.server.claim_schedule(&[], lost_after, |_, now| Some(now)).await.unwrap();
    let Some(Claim::Run(run)) = claimed else { panic!("{claimed:?}") };
    assert_eq!(
        world.server.claim_schedule(&[], lost_after, |_, _| None).await.unwrap(),
        Some(Claim::Skipped)
    );
    let end = RunEnd { outcome: RunOutcome::Answered, status: Some(200), code: None };
    world.server.end_run(&run, &end).await.unwrap();
    world.server.delete_schedule(&actor(), &busy, &called, &name).await.unwrap();
}

/// What a tenant says, and what servers look for again and again.
async fn triggers(world: &World) {
    let (busy, called, name) =
        (TenantName::parse("t0").unwrap(), function("f1"), TriggerName::parse("mine").unwrap());
    let changes = WatchedChanges {
        resource: "r0".parse().unwrap(),
        prefix: "in/".to_owned(),
        on_put: true,
        on_delete: true,
    };
    let set = world.server.set_trigger(&actor(), &busy, &called, (&name, &changes)).await.unwrap();
    assert!(!world.server.triggers(&busy, &called).await.unwrap().is_empty());
    assert_eq!(world.server.trigger(set.id).await.unwrap(), Some(set));
    assert!(world.server.granted_kind(&busy, &changes.resource).await.unwrap().is_some());
    assert!(!world.server.site_triggers(None, PAGE).await.unwrap().is_empty());
    world.server.delete_trigger(&actor(), &busy, &called, &name).await.unwrap();
}

async fn reviews(world: &World, turn: &str) {
    let (name, nobody) = (CrateName::parse("c1").unwrap(), TenantName::parse("t150").unwrap());
    for tenant in [None, Some(&nobody)] {
        ran(world.server.unanswered_requests(tenant, PAGE).await);
        ran(world.server.request(tenant, 77).await);
    }
    for state in [ReviewState::Open, ReviewState::Approved, ReviewState::Revoked] {
        ran(world.server.reviews(Some(state), 0, PAGE).await);
        ran(world.server.closed_reviews(state, 25).await);
    }
    ran(world.server.reviews(None, 0, PAGE).await);
    ran(world.server.askers(77, PAGE).await);
    ran(world.server.reviews_of(&name).await);
    ran(world.server.review(77).await);
    ran(world.server.hotspot_notes(77).await);
    ran(world.server.delta_of_review(77).await);
    let digest = Digest::of(b"crate77");
    ran(world.server.crate_report(&digest).await);
    ran(world.server.crate_files(&digest).await);
    ran(world.server.crate_file(&digest, "src/1.rs").await);
    ran(world.server.crates(None).await);
    ran(world.server.crates_of(&name, None).await);
    ran(world.server.closures_of(&name).await);
    ran(world.server.allowlist_of(&nobody, None).await);
    ran(world.server.index_lines(&nobody, "c1").await);
    ran(world.server.offered_archive(&nobody, &name, &semver::Version::new(1, 0, 1)).await);
    ran(world.server.built_with(&name, &semver::Version::new(9, 9, 9)).await);
    let asker = person(&format!("asker-{turn}"));
    let new = NewRequest {
        tenant: &tenant(),
        person: &asker,
        name: &name,
        requirement: &semver::VersionReq::STAR,
        features: &[],
        default_features: true,
        overrides: false,
    };
    world.server.request_crate(&actor(), &new).await.unwrap();
}

async fn acquires(world: &World) {
    let mut session = acquirer(world).await;
    let toolchain: ToolchainId = "a".repeat(64).parse().unwrap();
    ran(session.requests(mfaas_catalog::RequestStatus::Open).await);
    ran(session.requests(mfaas_catalog::RequestStatus::Building).await);
    ran(session.settle().await);
    ran(session.unindexed(1).await);
    ran(session.uncompared(&toolchain, 10).await);
    ran(session.missing_archives(&[Digest::of(b"crate1")]).await);
    ran(session.extras(&toolchain, &[]).await);
    ran(session.outside().await);
    ran(session.newest_cache(&Digest::of(b"base1"), &toolchain).await);
    ran(world.builder.replaced_caches(&Digest::of(b"base1"), &toolchain, &[Digest::of(b"cache1")]).await);
    ran(world.builder.toolchain_standing(&toolchain).await);
    let part = mfaas_rules::LinkedCrate {
        name: mfaas_ident::CrateName::parse("c1").unwrap(),
        version: semver::Version::new(1, 0, 1),
        checksum: Digest::of(b"crate1").to_string(),
    };
    ran(world.builder.newest_cache_with(&toolchain, &[part]).await);
    ran(session.report(&Digest::of(b"crate1")).await);
    ran(session.crate_delta(&Digest::of(b"crate1")).await);
    ran(session.reports_about(&Digest::of(b"crate1")).await);
}

async fn upkeep(world: &World) {
    while world.server.forget(&Retention::DEFAULT).await.unwrap() > 0 {}
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file://{}", dir.path().display())).unwrap();
    blobs.mark().await.unwrap();
    for n in 0..10 {
        let digest = blobs.put(format!("blob {n}").into()).await.unwrap();
        let byte = u8::from_str_radix(&digest.to_string()[..2], 16).unwrap();
        let grace = std::time::Duration::ZERO;
        assert_eq!(world.server.collect_blobs(&blobs, &Retention::DEFAULT, grace, byte).await.unwrap(), 1);
    }
}
