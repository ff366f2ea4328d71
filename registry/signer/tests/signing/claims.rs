//! What a claim says that follows from what no builder can write.

use mfaas_attest::{BuildClaim, DecisionUsed, SandboxLevel};
use mfaas_ident::Digest;

use super::outcome;
use crate::SOURCE;
use crate::world::{MANIFEST, World, toolchain};

fn checksum(name: &str) -> String {
    Digest::of(name.as_bytes()).to_string()
}

fn used(name: &str) -> DecisionUsed {
    DecisionUsed {
        name: name.parse().unwrap(),
        version: "1.0.0".to_owned(),
        checksum: checksum(name),
        decided_by: "somebody".to_owned(),
    }
}

impl World {
    /// Crates that may be used.
    pub(crate) fn allow(&mut self, names: &[&str]) {
        for name in names {
            let sql =
                "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
                       VALUES ($1, '1.0.0', $2, '{}', true, 'allowed', 'seed', 'small')";
            self.sql.execute(sql, &[name, &checksum(name)]).unwrap();
        }
    }

    /// A crate of a cache, with what it needs there.
    pub(crate) fn cached(&mut self, cache: &str, base: &str, name: &str, needs: &[&str]) {
        let part =
            |name: &&str| serde_json::json!({"name": name, "version": "1.0.0", "checksum": checksum(name)});
        let needs = serde_json::Value::Array(needs.iter().map(part).collect());
        let sql = "INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
                   VALUES ($1, $2, $3, $4, '1.0.0', $5, $6)";
        let toolchain = toolchain().to_string();
        let (cache, base) = (checksum(cache), checksum(base));
        self.sql.execute(sql, &[&cache, &base, &toolchain, &name, &checksum(name), &needs]).unwrap();
    }

    /// Notes that the acquirer recorded a cache so many seconds ago.
    fn recorded(&mut self, cache: &str, base: &str, seconds_ago: f64) {
        let sql = "INSERT INTO dependency_caches (key, base, toolchain, lock, built_at)
                   VALUES ($1, $2, $3, '', now() - make_interval(secs => $4))";
        let (cache, base) = (checksum(cache), checksum(base));
        self.sql.execute(sql, &[&cache, &base, &toolchain().to_string(), &seconds_ago]).unwrap();
    }

    /// What becomes of a build with `a` as its dependency that claims these crates.
    fn claims(&mut self, names: &[&str]) -> (String, Vec<String>) {
        let manifest = format!("{MANIFEST}[dependencies]\na = \"1\"\n");
        let decisions: Vec<_> = names.iter().map(|name| used(name)).collect();
        let id = self.built_from(&manifest, SOURCE, |claim| claim.decisions = decisions);
        self.ended(id)
    }
}

#[test]
fn a_build_has_the_crates_of_the_sites_cache_no_fewer_and_no_more() {
    let mut world = World::new();
    let _signer = world.signer();
    world.allow(&["a", "b", "c", "d"]);
    world.cached("ships", "ships", "a", &["b", "c"]);
    world.cached("ships", "ships", "b", &["c"]);
    world.cached("ships", "ships", "d", &[]);
    assert_eq!(world.claims(&["a", "c", "b"]), outcome("admitted", &[]));
    assert_eq!(
        world.count("SELECT count(*) FROM version_crates"),
        3,
        "a revocation of each finds the version"
    );
    let lies: [(&str, &[&str]); 5] = [
        ("one is left out", &["a", "b"]),
        ("all but the direct one are", &["a"]),
        ("one that is allowed is added", &["a", "b", "c", "d"]),
        ("one is named twice", &["a", "b", "c", "c"]),
        ("nothing is claimed", &[]),
    ];
    for (lie, names) in lies {
        assert_eq!(world.claims(names), outcome("failed", &["MF0603"]), "{lie}");
    }
    let id = world.built_from(MANIFEST, SOURCE, |claim| claim.decisions = vec![used("d")]);
    assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "nothing is asked for");
}

/// A builder takes the newest cache that it finds when it begins.
#[test]
fn a_cache_that_had_a_successor_when_a_build_was_queued_counts_no_more() {
    let mut world = World::new();
    let _signer = world.signer();
    world.allow(&["a", "b"]);
    world.cached("ships", "ships", "a", &[]);
    world.cached("second", "ships", "a", &["b"]);
    world.recorded("second", "ships", 1.0);
    for names in [&["a"][..], &["a", "b"]] {
        assert_eq!(world.claims(names), outcome("admitted", &[]), "{names:?}");
    }
    world.sql.batch_execute("UPDATE dependency_caches SET built_at = now() - interval '2 minutes'").unwrap();
    assert_eq!(world.claims(&["a", "b"]), outcome("admitted", &[]));
    assert_eq!(world.claims(&["a"]), outcome("failed", &["MF0603"]));
    // The site goes back to what ships.
    world.recorded("ships", "ships", 100.0);
    assert_eq!(world.claims(&["a"]), outcome("admitted", &[]));
    assert_eq!(world.claims(&["a", "b"]), outcome("failed", &["MF0603"]));
}

/// An import that is missing is a fault of ours: it ends nobody's deployment, and admits nothing.
#[test]
fn what_no_cache_is_recorded_for_waits() {
    let mut world = World::new();
    let _signer = world.signer();
    world.allow(&["a"]);
    let manifest = format!("{MANIFEST}[dependencies]\na = \"1\"\n");
    let id = world.built_from(&manifest, SOURCE, |claim| claim.decisions = vec![used("a")]);
    let other = world.built(|_| {});
    assert_eq!(world.ended(other), outcome("admitted", &[]), "others do not wait for it");
    let state = "SELECT count(*) FROM deployments WHERE state = 'built'";
    assert_eq!(world.count(state), 1);
    world.cached("ships", "ships", "a", &[]);
    assert_eq!(world.ended(id), outcome("admitted", &[]));
}

#[test]
fn lints_checks_and_the_allowlists_version_are_those_of_these_rules() {
    let mut world = World::new();
    let _signer = world.signer();
    let lies: [fn(&mut BuildClaim); 7] = [
        |claim| claim.lints.clear(),
        |claim| claim.lints.push("my_own_lint".to_owned()),
        |claim| claim.lints.push(claim.lints[0].clone()),
        |claim| claim.checks.clear(),
        |claim| claim.checks.retain(|check| check != "dep_info"),
        |claim| claim.checks.push("reviewed_by_hand".to_owned()),
        |claim| claim.policy_version = 1_000_000,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let id = world.built(lie);
        assert_eq!(world.ended(id), outcome("failed", &["MF0603"]), "lie {number}");
    }
    let id = world.built(|claim| claim.lints.reverse());
    assert_eq!(world.ended(id), outcome("admitted", &[]), "their order says nothing");
}

#[test]
fn a_sandbox_below_the_sites_minimum_is_a_fault_of_ours() {
    let mut world = World::new();
    let signer = world.signer();
    let weak = |claim: &mut BuildClaim| claim.sandbox_level = SandboxLevel::Landlock;
    let id = world.built(weak);
    assert_eq!(world.ended(id), outcome("failed", &["MF0409"]));
    signer.stop();
    let _signer = world.signer_with(&[("MFAAS_SANDBOX_MINIMUM", "landlock")]);
    let id = world.built(weak);
    assert_eq!(world.ended(id), outcome("admitted", &[]));
    // The release before called it otherwise.
    for (name, warned) in [("MFAAS_SANDBOX_MINIMUM", false), ("MFAAS_CAGE_MINIMUM", true)] {
        let text = world.refuses_to_serve(name, "none");
        assert!(text.contains("MFAAS_SANDBOX_MINIMUM"), "{text}");
        assert_eq!(text.contains("is now called MFAAS_SANDBOX_MINIMUM"), warned, "{text}");
    }
}
