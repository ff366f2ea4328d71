//! The life of a request in rows: what it comes down to, who decides, what follows; and that neither the code
//! nor a role with a connection of its own gets round the rules.

use std::collections::BTreeSet;
use std::time::Duration;

use mfaas_attest::AuditHead;
use mfaas_catalog::{
    Acquirer, AdvisoryImport, CacheArchive, CatalogError, CrateClosure, CrateFile, DependencyCache,
    HoldingCache, MemberOutcome, NewRequest, NewVote, Request, RequestStatus, ResolvedMember,
    ResolvedRequest, Revocation, Severity, ToolchainStanding,
};
use mfaas_delivery::DeploymentState;
use mfaas_ident::{CrateName, DeploymentId, Digest, PersonName, ToolchainId};
use mfaas_rules::crate_facts::{CrateReport, TrialBuild};
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::review::{HotspotState, Review, ReviewAct, ReviewRefusal, ReviewState, Terms};
use mfaas_rules::{
    CrateJudgement, CrateRequest, CrateStatus, LinkedCrate, People, Suggestion, UndecidedCrate, codes,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use sqlx::AssertSqlSafe;

use crate::fixture::{World, actor, claim, person, tenant};

/// Random sequences of acts that are compared with the pure rules.
const SEQUENCES: usize = 150;

pub(crate) fn toolchain() -> ToolchainId {
    ToolchainId(Digest::of(b"toolchain"))
}

fn name() -> CrateName {
    CrateName::parse("left-pad").unwrap()
}

fn version() -> semver::Version {
    semver::Version::new(1, 2, 3)
}

/// The one acquirer; the connection of the one before may take a moment to close.
pub(crate) async fn acquirer(world: &World) -> Acquirer {
    for _ in 0..400 {
        if let Some(acquirer) = world.acquirer.become_acquirer().await.unwrap() {
            return acquirer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("somebody else stays the acquirer");
}

/// A report without anything in it: the catalog stores it and reads nothing of it.
pub(crate) fn report() -> CrateReport {
    serde_json::from_value(serde_json::json!({
        "revision": 1, "name": name(), "version": version(), "checksum": Digest::of(b"crate"),
        "features": ["std"], "target": "x86_64-unknown-linux-gnu",
        "archive": { "bytes": 7, "unpacked_bytes": 9, "files": 1, "binaries": [], "native_sources": [], "unread": [] },
        "source": {
            "package": "left-pad 1.2.3", "files": [], "exported_macros": [], "proc_macro": false,
            "build_script": false, "unread": [],
            "summary": { "unsafe": "none", "reasons": [], "geiger": {
                "functions": {"safe": 0, "unsafe": 0}, "exprs": {"safe": 0, "unsafe": 0},
                "impls": {"safe": 0, "unsafe": 0}, "traits": {"safe": 0, "unsafe": 0},
                "methods": {"safe": 0, "unsafe": 0},
            }, "token_spots": 0 },
        },
        "compiler": "clean", "touches": { "classes": [], "unread": [] }, "shapes": { "shapes": [], "unread": [] },
        "licence": { "expression": "MIT", "file": null },
        "kind": { "proc_macro": false, "build_script": false, "links": null, "edition": "2021" },
        "published": null, "yanked": null, "needs": [],
    }))
    .unwrap()
}

/// The texts of the crate.
fn texts() -> Vec<CrateFile> {
    let file = |path: &str| CrateFile { path: path.to_owned(), blob: Digest::of(path.as_bytes()), bytes: 7 };
    vec![file("Cargo.toml"), file("src/lib.rs")]
}

pub(crate) fn resolution(request: i64, people: People) -> ResolvedRequest {
    let member = ResolvedMember {
        name: name(),
        version: version(),
        checksum: Digest::of(b"crate"),
        features: vec!["std".to_owned()],
        path: vec!["left-pad".to_owned()],
        outcome: MemberOutcome::Review {
            people,
            judgement: CrateJudgement {
                suggestion: Suggestion::Review { people },
                reasons: Vec::new(),
                hints: Vec::new(),
                rules_revision: "test".to_owned(),
            },
            report: Digest::of(b"report"),
            trial: TrialBuild::Compiles { needs: BTreeSet::new() },
        },
    };
    ResolvedRequest { request, chosen: version(), members: vec![member] }
}

/// A deployment that waits for left-pad, and its request.
pub(crate) async fn waiting(world: &World) -> (DeploymentId, Request) {
    let deployment = world.upload("hello", "key-1", b"source").await;
    let claimed = world.claim("one").await;
    let request = CrateRequest {
        name: name(),
        requirement: "^1".parse().unwrap(),
        features: vec!["std".to_owned()],
        default_features: true,
    };
    let wanted = UndecidedCrate { request, code: codes::MF0204 };
    world.builder.finish_waiting(&claimed.lease, &[], &[wanted]).await.unwrap();
    let requests = world.server.unanswered_requests(None, 10).await.unwrap();
    assert_eq!((requests.len(), requests[0].deployment), (1, Some(deployment.id)));
    (deployment.id, requests[0].clone())
}

/// The request resolved, with one review open that takes this many people.
pub(crate) async fn reviewing(world: &World, request: i64, people: People) -> i64 {
    let mut acquirer = acquirer(world).await;
    acquirer.store_report(&Digest::of(b"report"), &report(), &texts()).await.unwrap();
    acquirer.resolved(&resolution(request, people), &toolchain()).await.unwrap();
    world.server.reviews(Some(ReviewState::Open), 0, 10).await.unwrap()[0].id
}

async fn vote(
    world: &World,
    review: i64,
    who: &str,
    approve: Option<&Terms>,
) -> Result<ReviewState, CatalogError> {
    let token = world.reviewer(who).await;
    world.server.vote(&NewVote { review, token: &token, approve, note: "looked at it" }).await
}

fn cache() -> DependencyCache {
    let key = |text: &[u8]| Digest::of(text);
    DependencyCache {
        key: key(b"cache"),
        base: key(b"base"),
        toolchain: toolchain(),
        lock: "version = 4".to_owned(),
        archive: Some(CacheArchive { digest: key(b"cache archive"), bytes: 13 }),
    }
}

#[tokio::test]
async fn a_cache_that_comes_back_is_the_newest_again() {
    let world = World::new().await;
    let mut acquirer = acquirer(&world).await;
    let (base, toolchain) = (Digest::of(b"base"), toolchain());
    let other = DependencyCache { key: Digest::of(b"other cache"), ..cache() };
    let known = [cache().key, other.key, Digest::of(b"never recorded")];
    let of_before = DependencyCache { archive: None, ..cache() };
    acquirer.built(&of_before, &[], &[]).await.unwrap();
    for (cache, replaced) in
        [(cache(), vec![]), (other, vec![cache().key]), (cache(), vec![Digest::of(b"other cache")])]
    {
        acquirer.built(&cache, &[], &[]).await.unwrap();
        assert_eq!(world.builder.newest_cache(&base, &toolchain).await.unwrap(), Some(cache));
        assert_eq!(world.builder.replaced_caches(&base, &toolchain, &known).await.unwrap(), replaced);
    }
    let built = "SELECT count(*) FROM audit_log WHERE action = 'dependencies.built'";
    assert_eq!(world.count(built).await, 4);
    acquirer.built(&cache(), &[], &[]).await.unwrap();
    assert_eq!(world.count(built).await, 4, "nothing has changed");
}

#[tokio::test]
async fn a_builder_finds_out_what_it_lacks() {
    let world = World::new().await;
    let (ours, newer) = (toolchain(), ToolchainId(Digest::of(b"newer")));
    let standing = async |id| world.builder.toolchain_standing(id).await.unwrap();
    assert_eq!(standing(&ours).await, ToolchainStanding::NotAccepted);
    let accept = async |id: &ToolchainId| {
        let sql = format!("INSERT INTO toolchains (id, accepted, decided_by) VALUES ('{id}', true, 'test')");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&world.sql).await.unwrap();
    };
    accept(&ours).await;
    assert_eq!(standing(&ours).await, ToolchainStanding::Newest);
    accept(&newer).await;
    assert_eq!(standing(&ours).await, ToolchainStanding::Replaced(newer));

    let part = LinkedCrate { name: name(), version: version(), checksum: Digest::of(b"crate").to_string() };
    let changed = LinkedCrate { checksum: Digest::of(b"changed").to_string(), ..part.clone() };
    let closure = CrateClosure { of: part.clone(), needs: Vec::new() };
    acquirer(&world).await.built(&cache(), &[closure], &[]).await.unwrap();
    let holding =
        async |crates: &[LinkedCrate]| world.builder.newest_cache_with(&ours, crates).await.unwrap();
    let held = HoldingCache { key: cache().key, base: cache().base };
    assert_eq!(holding(&[changed.clone(), part]).await, Some(held));
    assert_eq!(holding(&[changed]).await, None);
    assert_eq!(holding(&[]).await, None);
}

#[tokio::test]
async fn the_texts_of_a_crate_are_found_by_path_and_never_changed() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    let checksum = world.server.review(review).await.unwrap().checksum;
    assert_eq!(world.server.crate_files(&checksum).await.unwrap(), texts());
    let mut acquirer = acquirer(&world).await;
    let other = CrateFile { blob: Digest::of(b"other"), ..texts()[1].clone() };
    acquirer.store_report(&Digest::of(b"again"), &report(), &[other]).await.unwrap();
    assert_eq!(world.server.crate_file(&checksum, "src/lib.rs").await.unwrap(), texts()[1]);
    let missing = world.server.crate_file(&checksum, "src/../src/lib.rs").await.unwrap_err();
    assert!(matches!(missing, CatalogError::NotFound { .. }), "{missing}");
}

#[tokio::test]
async fn a_deployment_waits_is_decided_about_and_goes_on() {
    let world = World::new().await;
    let (deployment, request) = waiting(&world).await;
    assert_eq!(request.requested_by, Some(person("acme/ci")), "whoever uploaded asks");
    let review = reviewing(&world, request.id, People::Two).await;
    let row = world.server.review(review).await.unwrap();
    assert_eq!((row.people, row.waiting, row.requesters), (People::Two, 1, vec![person("acme/ci")]));

    let terms = Terms::default();
    assert_eq!(vote(&world, review, "alice", Some(&terms)).await.unwrap(), ReviewState::Open);
    let refused = vote(&world, review, "acme/ci", Some(&terms)).await.unwrap_err();
    assert_eq!(refused.to_string(), ReviewRefusal::Requester.to_string());
    let mut acquirer = acquirer(&world).await;
    assert_eq!(acquirer.settle().await.unwrap(), 0, "one of two has voted");
    assert_eq!(vote(&world, review, "bob", Some(&terms)).await.unwrap(), ReviewState::Approved);

    assert_eq!(acquirer.settle().await.unwrap(), 1);
    let extras = acquirer.extras(&toolchain(), &[request.id]).await.unwrap();
    assert_eq!((extras.len(), extras[0].direct, extras[0].name.as_str()), (1, true, "left-pad"));
    assert!(world.builder.claim("one", crate::fixture::LONG).await.unwrap().is_none(), "not built yet");
    acquirer.built(&cache(), &[], &[request.id]).await.unwrap();
    acquirer.built(&cache(), &[], &[request.id]).await.unwrap();
    let found = world.builder.newest_cache(&Digest::of(b"base"), &toolchain()).await.unwrap();
    assert_eq!(found, Some(cache()));

    let again = world.claim("one").await;
    assert_eq!((again.lease.deployment(), again.attempt), (deployment, 1));
    let allowed = world.builder.allowlist_snapshot(&tenant(), &toolchain()).await.unwrap();
    assert_eq!((allowed.crates.len(), allowed.crates[0].decided_by.as_str()), (1, "alice, bob"));
    world.builder.finish_built(&again.lease, &claim(b"so")).await.unwrap();
    let (request, members) = world.server.request(Some(&tenant()), request.id).await.unwrap();
    assert_eq!((request.status, request.chosen), (RequestStatus::Ready, Some(version())));
    assert_eq!((members.len(), members[0].review), (1, Some(review)));
    world.server.verify_audit(AuditHead::START).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_no_ends_the_deployment_with_the_reviewers_words() {
    let world = World::new().await;
    let (deployment, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::Two).await;
    assert_eq!(vote(&world, review, "alice", None).await.unwrap(), ReviewState::Denied);
    let now = world.server.deployment(&tenant(), deployment).await.unwrap();
    assert_eq!(now.state, DeploymentState::Refused);
    assert_eq!(now.diagnostics[0].code, codes::MF0209);
    assert!(now.diagnostics[0].message.contains("denied by alice: looked at it"), "{:?}", now.diagnostics);
    let (request, _) = world.server.request(None, request.id).await.unwrap();
    assert_eq!(request.status, RequestStatus::Denied);
    let allowed = world.builder.allowlist_snapshot(&tenant(), &toolchain()).await.unwrap();
    assert_eq!(allowed.crates[0].status, CrateStatus::Denied);
}

#[tokio::test]
async fn what_cannot_be_offered_ends_with_the_reason() {
    let world = World::new().await;
    let (deployment, request) = waiting(&world).await;
    let mut acquirer = acquirer(&world).await;
    acquirer.fail(&[request.id], codes::MF0205, "no version of it fits `^1`".to_owned()).await.unwrap();
    let now = world.server.deployment(&tenant(), deployment).await.unwrap();
    assert_eq!((now.state, now.diagnostics[0].code), (DeploymentState::Refused, codes::MF0205));
    assert!(acquirer.requests(RequestStatus::Open).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_be_built_is_revoked_and_can_be_asked_for_again() {
    let world = World::new().await;
    let (deployment, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    vote(&world, review, "alice", Some(&Terms::default())).await.unwrap();
    let mut acquirer = acquirer(&world).await;
    assert_eq!(acquirer.settle().await.unwrap(), 1);
    acquirer.fail_build(&[request.id], codes::MF0210, "error[E0432]: no `fs` in `std`").await.unwrap();
    let now = world.server.deployment(&tenant(), deployment).await.unwrap();
    assert_eq!((now.state, now.diagnostics[0].code), (DeploymentState::Refused, codes::MF0210));
    assert_eq!(world.server.review(review).await.unwrap().state, ReviewState::Revoked);
    assert!(acquirer.extras(&toolchain(), &[]).await.unwrap().is_empty(), "it is in nobody's way");
    world.damage("UPDATE crate_requests SET takeover = true, status = 'building'").await;
    world.damage("UPDATE crates SET status = 'allowed', decided_by = 'seed', review_id = NULL").await;
    world.damage("ALTER TABLE crates DISABLE TRIGGER crates_decided").await;
    world.damage("UPDATE crates SET decided_by = 'alice'").await;
    acquirer.fail_build(&[request.id], codes::MF0210, "it does not compile").await.unwrap();
    let kept = world.builder.allowlist_snapshot(&tenant(), &toolchain()).await.unwrap();
    assert_eq!(kept.crates[0].status, CrateStatus::Allowed, "what ships is not revoked by a failed build");
    world.damage("UPDATE crates SET status = 'revoked'").await;
    world.damage("ALTER TABLE crates ENABLE TRIGGER crates_decided").await;
    drop(acquirer);
    let again = reviewing_again(&world, ask(&world, 0).await, People::One).await;
    let terms = Terms { grants: BTreeSet::from([Capability::Threads]), ..Terms::default() };
    assert_eq!(vote(&world, again, "alice", Some(&terms)).await.unwrap(), ReviewState::Approved);
    let allowed = world.builder.allowlist_snapshot(&tenant(), &toolchain()).await.unwrap();
    assert_eq!(allowed.crates[0].status, CrateStatus::Allowed);
}

#[tokio::test]
async fn what_the_rules_admit_needs_nobody_and_overrules_nobody() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let mut acquirer = acquirer(&world).await;
    acquirer.store_report(&Digest::of(b"report"), &report(), &[]).await.unwrap();
    let mut resolved = resolution(request.id, People::One);
    resolved.members[0].outcome = MemberOutcome::Admit { rules_revision: "7".to_owned() };
    acquirer.resolved(&resolved, &toolchain()).await.unwrap();
    assert_eq!(acquirer.settle().await.unwrap(), 1);
    let allowed = async || world.builder.allowlist_snapshot(&tenant(), &toolchain()).await.unwrap().crates;
    assert_eq!((allowed().await[0].decided_by.as_str(), allowed().await[0].direct), ("rules 7", true));
    let again = acquirer.resolved(&resolved, &toolchain()).await;
    assert!(matches!(again, Err(CatalogError::Conflict { .. })), "a request is resolved once: {again:?}");
    let (name, version, alice, actor) = (name(), version(), person("alice"), actor());
    let revocation = Revocation {
        name: &name,
        version: &version,
        person: &alice,
        actor: &actor,
        severity: Severity::Block,
        reason: "a flaw",
    };
    world.server.revoke_crate(&revocation).await.unwrap();
    world.damage("UPDATE crate_requests SET status = 'open'").await;
    acquirer.resolved(&resolved, &toolchain()).await.unwrap();
    assert_eq!(allowed().await[0].status, CrateStatus::Revoked, "rules do not overrule a person");
}

#[tokio::test]
async fn nobody_approves_what_an_advisory_refuses_since() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    let set = serde_json::from_value(serde_json::json!({ "unread": [], "advisories": [{
        "id": "RUSTSEC-2099-0001", "package": "left-pad", "kind": "unsound", "title": "it pads right",
        "patched": [">=2.0.0"], "unaffected": [], "withdrawn": false, "url": null,
    }] }))
    .unwrap();
    let (alice, actor) = (person("alice"), actor());
    let import = AdvisoryImport { set: &set, severity: Severity::Block, person: &alice, actor: &actor };
    assert!(world.server.import_advisories(&import).await.unwrap().is_empty(), "nothing is allowed yet");
    let refused = vote(&world, review, "alice", Some(&Terms::default())).await.unwrap_err();
    assert!(refused.to_string().contains("RUSTSEC-2099-0001"), "{refused}");
    assert_eq!(vote(&world, review, "alice", None).await.unwrap(), ReviewState::Denied);
}

#[tokio::test]
async fn votes_for_other_facts_do_not_count() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let first = reviewing(&world, request.id, People::One).await;
    let again = reviewing_again(&world, ask(&world, 0).await, People::Two).await;
    assert_ne!(first, again, "it takes two now");
    assert_eq!(world.server.review(first).await.unwrap().state, ReviewState::Withdrawn);
    let mut acquirer = acquirer(&world).await;
    acquirer.settle().await.unwrap();
    assert_eq!(
        acquirer.requests(RequestStatus::Open).await.unwrap()[0].id,
        request.id,
        "it is resolved anew"
    );
}

#[tokio::test]
async fn nobody_approves_what_the_trial_says_cannot_be_built() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::Two).await;
    let tried = |trial: TrialBuild| {
        let world = &world;
        async move {
            let mut resolved = resolution(ask(world, 0).await, People::Two);
            if let MemberOutcome::Review { trial: ended, .. } = &mut resolved.members[0].outcome {
                *ended = trial;
            }
            let mut acquirer = acquirer(world).await;
            acquirer.resolved(&resolved, &toolchain()).await
        }
    };
    let needs = TrialBuild::Compiles { needs: BTreeSet::from([Capability::Threads]) };
    tried(needs.clone()).await.unwrap();
    assert_eq!(world.server.review(review).await.unwrap().trial, Some(needs), "the newest trial counts");
    let refused = vote(&world, review, "alice", Some(&Terms::default())).await.unwrap_err();
    assert!(refused.to_string().contains("unless it is granted threads"), "{refused}");
    let terms = Terms { grants: BTreeSet::from([Capability::Threads]), ..Terms::default() };
    assert_eq!(vote(&world, review, "alice", Some(&terms)).await.unwrap(), ReviewState::Open);
}

#[tokio::test]
async fn there_is_one_acquirer_and_its_place_is_free_when_it_is_gone() {
    let world = World::new().await;
    let first = acquirer(&world).await;
    assert!(world.acquirer.become_acquirer().await.unwrap().is_none());
    drop(first);
    let mut second = acquirer(&world).await;
    assert!(second.requests(RequestStatus::Open).await.unwrap().is_empty());
}

#[tokio::test]
async fn scope_and_expiry_bound_a_yes() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    let soon = chrono::Utc::now().timestamp() + 3_600;
    let terms = Terms { tenant: Some(tenant()), expires_at: Some(soon), ..Terms::default() };
    vote(&world, review, "alice", Some(&terms)).await.unwrap();
    let allowed = async |tenant: &str, compiler: &[u8]| {
        let tenant = mfaas_ident::TenantName::parse(tenant).unwrap();
        let compiler = ToolchainId(Digest::of(compiler));
        world.builder.allowlist_snapshot(&tenant, &compiler).await.unwrap().crates.len()
    };
    assert_eq!(allowed("acme", b"toolchain").await, 1);
    assert_eq!(allowed("stranger", b"toolchain").await, 0, "for one tenant");
    assert_eq!(allowed("acme", b"another").await, 0, "for one compiler");
    world.damage("ALTER TABLE crates DISABLE TRIGGER crates_decided").await;
    world.damage("UPDATE crates SET expires_at = now() - interval '1 second'").await;
    assert_eq!(allowed("acme", b"toolchain").await, 0, "until it ends");
}

#[tokio::test]
async fn a_revocation_finds_what_was_built_with_it() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    let review = reviewing(&world, request.id, People::One).await;
    vote(&world, review, "alice", Some(&Terms::default())).await.unwrap();
    let running = world.admitted("other", "key-2").await;
    world
        .damage(
            "INSERT INTO version_crates SELECT tenant, function, version, 'left-pad', '1.2.3', repeat('a', 64) FROM versions",
        )
        .await;
    let affected = world.server.built_with(&name(), &version()).await.unwrap();
    assert_eq!((affected.len(), affected[0].version, affected[0].revoked), (1, running, false));
    assert_eq!(affected[0].aliases[0].as_str(), "live");
    let (name, version, alice, actor) = (name(), version(), person("alice"), actor());
    let revocation = |severity| Revocation {
        name: &name,
        version: &version,
        person: &alice,
        actor: &actor,
        severity,
        reason: "RUSTSEC-2099-0001",
    };
    world.server.revoke_crate(&revocation(Severity::Unload)).await.unwrap();
    let affected = world.server.built_with(&name, &version).await.unwrap();
    assert!(affected[0].revoked, "nodes unload it");
    let allowed = world.builder.allowlist_snapshot(&tenant(), &toolchain()).await.unwrap();
    assert_eq!(allowed.crates[0].status, CrateStatus::Revoked);
    assert_eq!(world.server.review(review).await.unwrap().state, ReviewState::Revoked);
    let again = world.server.revoke_crate(&revocation(Severity::Block)).await;
    assert!(matches!(again, Err(CatalogError::NotFound { .. })), "{again:?}");
}

#[tokio::test]
async fn a_person_asks_once_and_again_after_an_answer() {
    let world = World::new().await;
    world.server.ensure_tenant(&actor(), &tenant()).await.unwrap();
    let (tenant, name, carol, requirement) = (tenant(), name(), person("carol"), "^1".parse().unwrap());
    let new = NewRequest {
        tenant: &tenant,
        person: &carol,
        name: &name,
        requirement: &requirement,
        features: &[],
        default_features: true,
        overrides: false,
    };
    let first = world.server.request_crate(&actor(), &new).await.unwrap();
    assert_eq!(world.server.request_crate(&actor(), &new).await.unwrap(), first);
    let review = reviewing(&world, first.id, People::One).await;
    let own = vote(&world, review, "carol", Some(&Terms::default())).await.unwrap_err();
    assert_eq!(own.to_string(), ReviewRefusal::Requester.to_string());
    vote(&world, review, "alice", None).await.unwrap();
    let second = world.server.request_crate(&actor(), &new).await.unwrap();
    assert_ne!(second.id, first.id);
}

/// What a taken-over program would try with a connection of its own.
const UNDECIDED: &[(&str, &str, &str)] = &[
    (
        "mfaas_server",
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('evil', '1.0.0', repeat('a', 64), '{}', true, 'allowed', 'seed', '')",
        "crates_decided",
    ),
    (
        "mfaas_server",
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('left-pad', '1.2.3', repeat('a', 64), '{}', true, 'allowed', 'rules 1', '')",
        "crates_decided",
    ),
    (
        "mfaas_server",
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason, toolchain, review_id)
         SELECT name, version, checksum, features, true, 'allowed', 'alice', '', toolchain, id FROM reviews",
        "crates_decided",
    ),
    (
        "mfaas_acquirer",
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('evil', '1.0.0', repeat('a', 64), '{}', true, 'allowed', 'rules 1', '')",
        "crates_decided",
    ),
    ("mfaas_server", "UPDATE reviews SET state = 'approved', closed_at = now()", "reviews_enough_people"),
    ("mfaas_acquirer", "UPDATE reviews SET state = 'approved', closed_at = now()", "reviews_enough_people"),
    ("mfaas_server", "UPDATE reviews SET state = 'denied', closed_at = now()", "reviews_denied_by_somebody"),
    ("mfaas_server", "UPDATE reviews SET state = 'revoked', closed_at = now()", "reviews_state_transition"),
    (
        "mfaas_server",
        "INSERT INTO votes (review_id, person, approve, note, actor) SELECT id, 'acme/ci', true, 'x', 'x' FROM reviews",
        "votes_not_by_requester",
    ),
    (
        "mfaas_server",
        "INSERT INTO votes (review_id, person, approve, note, actor) SELECT id, 'mallory', true, 'x', 'x' FROM reviews",
        "votes_by_a_person",
    ),
    (
        "mfaas_server",
        "INSERT INTO votes (review_id, person, approve, note, actor, token_id)
         SELECT r.id, 'mallory', true, 'x', 'x', t.id FROM reviews r, tokens t",
        "votes_by_a_person",
    ),
    (
        "mfaas_server",
        "INSERT INTO tokens (tenant, name, secret_sha256, scopes) VALUES ('acme', 'x', 'x', '{review}')",
        "tokens_reviewer_is_a_person",
    ),
    (
        "mfaas_server",
        "INSERT INTO tokens (tenant, name, secret_sha256, scopes, person, vouched_by)
         VALUES ('acme', 'x', 'x', '{review}', 'mallory', 'provider')",
        "tokens_of_provider_end",
    ),
    (
        "mfaas_server",
        "INSERT INTO spot_notes (review_id, spot, state, person) SELECT id, 'x', 'seen', 'acme/ci' FROM reviews",
        "spot_notes_not_by_requester",
    ),
    ("mfaas_acquirer", "UPDATE deployments SET state = 'building' WHERE state = 'received'", "deployments_state_of_acquirer"),
];

/// What grants alone deny.
const DENIED: &[(&str, &str)] = &[
    ("mfaas_server", "UPDATE reviews SET people = 1"),
    ("mfaas_server", "UPDATE votes SET approve = true"),
    ("mfaas_server", "DELETE FROM votes"),
    ("mfaas_server", "UPDATE crate_requests SET requested_by = 'nobody'"),
    ("mfaas_server", "UPDATE deployments SET person = 'nobody'"),
    ("mfaas_server", "UPDATE tokens SET person = 'alice'"),
    ("mfaas_server", "UPDATE tokens SET vouched_by = 'provider'"),
    ("mfaas_server", "UPDATE tokens SET scopes = '{review}'"),
    ("mfaas_server", "UPDATE votes SET token_id = NULL"),
    ("mfaas_server", "DELETE FROM request_members"),
    ("mfaas_server", "INSERT INTO crate_reports (key) VALUES ('x')"),
    ("mfaas_server", "INSERT INTO crate_files (path) VALUES ('x')"),
    ("mfaas_server", "UPDATE crate_files SET blob = 'x'"),
    ("mfaas_acquirer", "UPDATE crate_files SET blob = 'x'"),
    ("mfaas_server", "INSERT INTO dependency_caches (key) VALUES ('x')"),
    ("mfaas_builder", "INSERT INTO votes (review_id) VALUES (1)"),
    ("mfaas_builder", "SELECT * FROM reviews"),
    ("mfaas_builder", "INSERT INTO dependency_caches (key) VALUES ('x')"),
    ("mfaas_server", "INSERT INTO index_entries (name) VALUES ('x')"),
    ("mfaas_server", "UPDATE index_entries SET line = '{}'"),
    ("mfaas_builder", "SELECT * FROM index_entries"),
    ("mfaas_acquirer", "DELETE FROM index_entries"),
    ("mfaas_acquirer", "INSERT INTO votes (review_id) VALUES (1)"),
    ("mfaas_acquirer", "UPDATE crate_reports SET report = '{}'"),
    ("mfaas_acquirer", "SELECT * FROM tokens"),
    ("mfaas_acquirer", "INSERT INTO versions (tenant) VALUES ('acme')"),
];

#[tokio::test]
async fn no_role_gets_round_the_votes_with_a_connection_of_its_own() {
    let world = World::new().await;
    let (_, request) = waiting(&world).await;
    reviewing(&world, request.id, People::Two).await;
    world.upload("other", "key-2", b"source").await;
    world.reviewer("carol").await;
    for (role, statement, constraint) in UNDECIDED {
        let error = sqlx::query(*statement).execute(&world.raw(role).await).await.unwrap_err();
        let found = error.as_database_error().and_then(|e| e.constraint().map(str::to_owned));
        assert_eq!(found.as_deref(), Some(*constraint), "{role}: {statement}: {error}");
    }
    for (role, statement) in DENIED {
        let error = sqlx::query(*statement).execute(&world.raw(role).await).await.unwrap_err();
        let code = error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
        assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
    }
}

/// Reviews in rows answer as the pure rules do, act by act; and the state that they end in is the same.
#[tokio::test]
async fn reviews_in_rows_answer_as_the_rules_do() {
    let world = World::new().await;
    world.server.ensure_tenant(&actor(), &tenant()).await.unwrap();
    let mut runner = TestRunner::deterministic();
    let (mut decided, mut refused) = (BTreeSet::new(), 0);
    for sequence in 0..SEQUENCES {
        let (two, acts) = sequences().new_tree(&mut runner).unwrap().current();
        let people = if two { People::Two } else { People::One };
        let request = ask(&world, sequence).await;
        let review = reviewing_again(&world, request, people).await;
        let mut model = Review::new(people, [person("person-0")]);
        for act in acts {
            let expected = model.act(act.clone()).map_err(|refusal| refusal.to_string());
            let found = in_rows(&world, review, act).await.map_err(|error| error.to_string());
            refused += u32::from(expected.is_err());
            assert_eq!(found, expected, "sequence {sequence}");
        }
        let row = world.server.review(review).await.unwrap();
        assert_eq!((row.state, row.terms), (model.state, model.terms.clone()), "sequence {sequence}");
        decided.insert(row.state);
        if row.state == ReviewState::Open {
            vote(&world, review, "last", None).await.unwrap();
        }
    }
    assert!(decided.len() == 3 && refused > 50, "{decided:?} and {refused} refusals: the acts are too tame");
}

fn sequences() -> impl Strategy<Value = (bool, Vec<ReviewAct>)> {
    let who = |number: u8| PersonName::parse(&format!("person-{number}")).unwrap();
    let terms = |number: u8| Terms { expires_at: (number > 0).then_some(4_000_000_000), ..Terms::default() };
    let vote = (0..4_u8, proptest::option::weighted(0.85, 0..2_u8))
        .prop_map(move |(person, yes)| ReviewAct::Vote { person: who(person), approve: yes.map(terms) });
    let mark = (0..4_u8, 0..2_u8, prop::sample::select(HotspotState::ALL.to_vec())).prop_map(
        move |(person, hotspot, state)| ReviewAct::Mark {
            person: who(person),
            hotspot: format!("lib.rs:{hotspot}"),
            state,
        },
    );
    (any::<bool>(), proptest::collection::vec(prop_oneof![3 => vote, 1 => mark], 1..7))
}

async fn in_rows(world: &World, review: i64, act: ReviewAct) -> Result<ReviewState, CatalogError> {
    match act {
        ReviewAct::Vote { person, approve } => vote(world, review, person.as_str(), approve.as_ref()).await,
        ReviewAct::Mark { person, hotspot, state } => {
            world.server.mark_hotspot(&actor(), &person, review, &hotspot, (state, "")).await?;
            Ok(world.server.review(review).await?.state)
        }
        ReviewAct::Revoke | ReviewAct::Withdraw => unreachable!("not among the acts"),
    }
}

/// A request of `person-0`, each time for other features, so that each has a review of its own.
pub(crate) async fn ask(world: &World, sequence: usize) -> i64 {
    let (tenant, name, requirement) = (tenant(), name(), "^1".parse().unwrap());
    let new = NewRequest {
        tenant: &tenant,
        person: &person("person-0"),
        name: &name,
        requirement: &requirement,
        features: &[format!("f{sequence}")],
        default_features: true,
        overrides: false,
    };
    world.server.request_crate(&actor(), &new).await.unwrap().id
}

async fn reviewing_again(world: &World, request: i64, people: People) -> i64 {
    let mut acquirer = acquirer(world).await;
    acquirer.store_report(&Digest::of(b"report"), &report(), &texts()).await.unwrap();
    acquirer.resolved(&resolution(request, people), &toolchain()).await.unwrap();
    let (_, members) = world.server.request(None, request).await.unwrap();
    members[0].review.unwrap()
}
