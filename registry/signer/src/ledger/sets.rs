//! The statements about serving sets: what nodes should serve, and the tree of shards that says it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use mfaas_attest::{
    ALIASES_MAX, AuditHead, CALL_REVOCATIONS_MAX, CallKey, KeyId, REVOKED_VERSIONS_TOLD, RevokedCalls,
    ServedFunction, ServedVersion, ServingSet, ShardRef,
};
use mfaas_ident::{Digest, Epoch, FunctionName, TenantName, ToolchainId, VersionNumber};
use postgres::{Client, GenericClient, Row, Transaction};
use serde_json::json;
use uuid::Uuid;

use super::{audit, readable, resources, text};

/// Versions of a function that can be called by number beside those that an alias names.
const RECENT_VERSIONS: i64 = 10;
/// Serving sets kept; nodes only ever ask for the newest.
const SERVING_SETS_KEPT: i64 = 100;
/// Keys for call tokens in a serving set, the newest: as many as it takes.
const CALL_KEYS: i64 = 16;
/// How long a shard stays that the newest set does not lead to, in seconds: longer than any node needs for a set.
const UNUSED_SHARDS_KEPT_S: f64 = 3_600.0;
/// Shards that are removed at once.
const UNUSED_SHARDS_AT_ONCE: i64 = 1_000;

/// A function by its name.
pub(crate) type Name = (TenantName, FunctionName);

/// The newest serving set, without its content.
pub(crate) struct LastSet {
    pub(crate) epoch: Epoch,
    pub(crate) generation: i64,
    pub(crate) expires_at: DateTime<Utc>,
    /// The tree that it leads to; nothing in a set of the release before.
    pub(crate) functions: Option<ShardRef>,
    /// The document of the call tokens that it revokes, if any.
    pub(crate) revoked_calls: Option<Digest>,
}

/// What a set says for all functions.
pub(crate) struct Desired {
    pub(crate) toolchains: BTreeSet<ToolchainId>,
    pub(crate) call_keys: Vec<CallKey>,
    pub(crate) revoked_calls: RevokedCalls,
    /// Where the audit log ends.
    pub(crate) audit_head: AuditHead,
    /// The newest key list; 0 before the first.
    pub(crate) key_list_version: u32,
}

/// What changed since the set before.
#[derive(Default)]
pub(crate) struct Changes {
    /// The rows that say so.
    pub(crate) rows: Vec<i64>,
    pub(crate) names: BTreeSet<Name>,
}

/// The newest serving set, if there is one.
pub(crate) fn last(client: &mut impl GenericClient) -> anyhow::Result<Option<LastSet>> {
    let row = client.query_opt(
        "SELECT epoch, generation, expires_at, shard, functions, revoked_calls
         FROM serving_sets ORDER BY epoch DESC LIMIT 1",
        &[],
    )?;
    row.as_ref().map(last_set).transpose()
}

fn last_set(row: &Row) -> anyhow::Result<LastSet> {
    let tree = row.try_get::<_, Option<String>>("shard")?.zip(row.try_get::<_, Option<i32>>("functions")?);
    let tree = tree.map(|(digest, functions)| {
        anyhow::Ok(ShardRef { digest: digest.parse()?, functions: u32::try_from(functions)? })
    });
    let revoked_calls = row.try_get::<_, Option<String>>("revoked_calls")?;
    Ok(LastSet {
        epoch: Epoch(u64::try_from(row.try_get::<_, i64>("epoch")?)?),
        generation: row.try_get("generation")?,
        expires_at: row.try_get("expires_at")?,
        functions: tree.transpose()?,
        revoked_calls: revoked_calls.map(|digest| digest.parse()).transpose()?,
    })
}

/// The highest epoch that any node has reported; 0 when none has.
pub(crate) fn highest_reported(client: &mut impl GenericClient) -> anyhow::Result<Epoch> {
    let epoch: i64 = client.query_one("SELECT coalesce(max(epoch), 0) FROM node_reports", &[])?.try_get(0)?;
    Ok(Epoch(u64::try_from(epoch)?))
}

/// The generation that nodes should serve.
pub(crate) fn desired_generation(client: &mut impl GenericClient) -> anyhow::Result<i64> {
    Ok(client.query_one("SELECT generation FROM desired_generation", &[])?.try_get(0)?)
}

/// Whether a function changed since the last set.
pub(crate) fn has_changes(client: &mut impl GenericClient) -> anyhow::Result<bool> {
    Ok(client.query_one("SELECT EXISTS (SELECT 1 FROM changed_functions)", &[])?.try_get(0)?)
}

/// Which functions changed since the last set, in the snapshot of the caller's transaction.
pub(crate) fn changes(tx: &mut Transaction<'_>) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    for row in tx.query("SELECT id, tenant, name FROM changed_functions", &[])? {
        changes.rows.push(row.try_get("id")?);
        changes.names.extend(readable("the name of a changed function", name(&row)));
    }
    Ok(changes)
}

/// Every function that there ever was.
pub(crate) fn all_names(tx: &mut Transaction<'_>) -> anyhow::Result<BTreeSet<Name>> {
    let rows = tx.query("SELECT tenant, name FROM functions", &[])?;
    Ok(rows.iter().filter_map(|row| readable("the name of a function", name(row))).collect())
}

fn name(row: &Row) -> anyhow::Result<Name> {
    Ok((text(row, "tenant")?, text(row, "name")?))
}

/// What holds for all functions, in the snapshot of the caller's transaction, which is repeatable read.
pub(crate) fn desired(tx: &mut Transaction<'_>) -> anyhow::Result<Desired> {
    let toolchains = tx.query("SELECT id FROM toolchains WHERE accepted", &[])?;
    let call_keys = tx.query(
        "SELECT id, public_key, not_after FROM call_keys WHERE not_after > now()
         ORDER BY made_at DESC, id LIMIT $1",
        &[&CALL_KEYS],
    )?;
    let key_list = tx.query_one("SELECT coalesce(max(version), 0) FROM key_lists", &[])?;
    let audit = tx.query_one("SELECT seq, hash FROM audit_head", &[])?;
    Ok(Desired {
        audit_head: AuditHead {
            row: u64::try_from(audit.try_get::<_, i64>("seq")?)?,
            hash: text(&audit, "hash")?,
        },
        key_list_version: u32::try_from(key_list.try_get::<_, i32>(0)?)?,
        // Any 32 bytes can stand there, and not all are a key.
        call_keys: call_keys.iter().filter_map(|row| readable("a key for calls", call_key(row))).collect(),
        revoked_calls: revoked_calls(tx)?,
        toolchains: toolchains.iter().filter_map(|row| readable("a toolchain", text(row, "id"))).collect(),
    })
}

/// The revocations of call tokens that are not all over. They are counted by the hour, as the database does where it bounds them:
/// so the document changes with each revocation, and with those that end once an hour at most.
fn revoked_calls(tx: &mut Transaction<'_>) -> anyhow::Result<RevokedCalls> {
    let rows = tx.query(
        "SELECT tenant, caller, token, issued_until FROM call_revocations
         WHERE ends_at > date_trunc('hour', now()) LIMIT $1",
        &[&i64::try_from(CALL_REVOCATIONS_MAX + 1)?],
    )?;
    let mut revoked = RevokedCalls::default();
    for row in &rows {
        // Nobody has a token of a name that cannot be read.
        readable("a revocation of call tokens", revoke(&mut revoked, row));
    }
    Ok(revoked)
}

fn revoke(revoked: &mut RevokedCalls, row: &Row) -> anyhow::Result<()> {
    let tenant = text(row, "tenant")?;
    match row.try_get::<_, Option<Uuid>>("token")? {
        Some(token) => revoked.revoke_token(tenant, token.to_string()),
        None => revoked.revoke_caller(tenant, text(row, "caller")?, row.try_get("issued_until")?),
    }
    Ok(())
}

/// What nodes should serve of these functions; those of which they should serve nothing are left out.
///
/// Revoked artifacts and those of toolchains that are no longer accepted are left out, with the aliases that name them, and
/// aliases beyond those that a function may have: nodes would refuse the shard, and with it every function of the set.
pub(crate) fn served(
    tx: &mut Transaction<'_>,
    names: &[Name],
) -> anyhow::Result<BTreeMap<Name, ServedFunction>> {
    let tenants: Vec<&str> = names.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let functions: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    let rows = tx.query(
        "SELECT f.tenant, f.name AS function, v.version, v.artifact, v.statement, v.budget_us, v.memory_bytes,
                ARRAY(SELECT a.alias FROM unnest(named.aliases, named.versions) AS a (alias, version)
                      WHERE a.version = v.version) AS aliases
         FROM unnest($1::text[], $2::text[]) AS wanted (tenant, name)
         JOIN functions f ON f.tenant = wanted.tenant AND f.name = wanted.name
         CROSS JOIN LATERAL (
             SELECT array_agg(a.alias) AS aliases, array_agg(a.version) AS versions FROM (
                 SELECT alias, version FROM aliases a WHERE a.tenant = f.tenant AND a.function = f.name
                 ORDER BY alias <> 'live', alias LIMIT $4) a) named
         CROSS JOIN LATERAL (
             (SELECT r.version, r.artifact, r.statement, r.budget_us, r.memory_bytes, r.toolchain FROM versions r
              WHERE r.tenant = f.tenant AND r.function = f.name AND r.retired_at IS NULL
              ORDER BY r.version DESC LIMIT $3)
             UNION
             SELECT n.version, n.artifact, n.statement, n.budget_us, n.memory_bytes, n.toolchain
             FROM versions n WHERE n.tenant = f.tenant AND n.function = f.name AND n.version = ANY(named.versions)
                 AND n.retired_at IS NULL) v
         JOIN toolchains t ON t.id = v.toolchain AND t.accepted
         WHERE f.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.artifact = v.artifact)",
        &[&tenants, &functions, &RECENT_VERSIONS, &i64::try_from(ALIASES_MAX)?],
    )?;
    let revoked = tx.query(
        "SELECT DISTINCT wanted.tenant, wanted.name AS function, v.artifact
         FROM unnest($1::text[], $2::text[]) AS wanted (tenant, name)
         CROSS JOIN LATERAL (SELECT r.artifact FROM versions r
              WHERE r.tenant = wanted.tenant AND r.function = wanted.name ORDER BY r.version DESC LIMIT $3) v
         JOIN revocations r ON r.artifact = v.artifact",
        &[&tenants, &functions, &i64::from(REVOKED_VERSIONS_TOLD)],
    )?;
    let mut served: BTreeMap<Name, ServedFunction> = BTreeMap::new();
    for row in &rows {
        let Some(served_version) = readable("a version", served_version(row)) else { continue };
        let function = entry(&mut served, row)?;
        for alias in row.try_get::<_, Vec<String>>("aliases")? {
            let alias = readable("an alias", alias.parse().map_err(anyhow::Error::from));
            function.aliases.extend(alias.map(|alias| (alias, served_version.version)));
        }
        function.versions.push(served_version);
    }
    for row in &revoked {
        entry(&mut served, row)?.revoked.insert(text(row, "artifact")?);
    }
    for function in served.values_mut() {
        function.versions.sort_unstable_by_key(|v| v.version);
    }
    resources::add_granted(tx, &mut served)?;
    Ok(served)
}

fn served_version(row: &Row) -> anyhow::Result<ServedVersion> {
    let budget = u64::try_from(row.try_get::<_, i64>("budget_us")?)?.try_into()?;
    let memory = u64::try_from(row.try_get::<_, i64>("memory_bytes")?)?.try_into()?;
    let (budget_us, memory_bytes) = ServedVersion::told(budget, memory);
    Ok(ServedVersion {
        version: VersionNumber::new(u32::try_from(row.try_get::<_, i32>("version")?)?)?,
        digest: text(row, "artifact")?,
        statement: text(row, "statement")?,
        budget_us,
        memory_bytes,
    })
}

fn entry<'a>(
    served: &'a mut BTreeMap<Name, ServedFunction>,
    row: &Row,
) -> anyhow::Result<&'a mut ServedFunction> {
    let (tenant, name): Name = (text(row, "tenant")?, text(row, "function")?);
    Ok(served.entry((tenant.clone(), name.clone())).or_insert_with(|| ServedFunction {
        tenant,
        name,
        aliases: BTreeMap::new(),
        versions: Vec::new(),
        revoked: BTreeSet::new(),
        resources: BTreeMap::new(),
    }))
}

/// The bytes of a shard, if it is there.
pub(crate) fn shard(tx: &mut Transaction<'_>, digest: &Digest) -> anyhow::Result<Option<String>> {
    let row = tx.query_opt("SELECT body FROM shards WHERE digest = $1", &[&digest.to_string()])?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Keeps shards that no set leads to yet.
pub(crate) fn store_shards(
    tx: &mut Transaction<'_>,
    shards: &BTreeMap<Digest, String>,
) -> anyhow::Result<()> {
    let digests: Vec<String> = shards.keys().map(Digest::to_string).collect();
    let bodies: Vec<&str> = shards.values().map(String::as_str).collect();
    // One that is there already and about to be removed starts its time anew; one that is damaged is repaired.
    tx.execute(
        "INSERT INTO shards (digest, body, unused_since)
         SELECT digest, body, now() FROM unnest($1::text[], $2::text[]) AS new (digest, body)
         ON CONFLICT ON CONSTRAINT shards_pkey DO UPDATE
         SET body = excluded.body, unused_since = CASE WHEN shards.unused_since IS NOT NULL THEN now() END
         WHERE shards.unused_since IS NOT NULL OR shards.body <> excluded.body",
        &[&digests, &bodies],
    )?;
    Ok(())
}

/// Lets the next set lead to `used`, and no longer to `unused`. `false` when one that it needs is gone.
pub(crate) fn use_shards(
    tx: &mut Transaction<'_>,
    used: &BTreeSet<Digest>,
    unused: &BTreeSet<Digest>,
) -> anyhow::Result<bool> {
    let names = |digests: &BTreeSet<Digest>| digests.iter().map(Digest::to_string).collect::<Vec<_>>();
    let found =
        tx.execute("UPDATE shards SET unused_since = NULL WHERE digest = ANY($1)", &[&names(used)])?;
    tx.execute("UPDATE shards SET unused_since = now() WHERE digest = ANY($1)", &[&names(unused)])?;
    Ok(found == used.len() as u64)
}

/// No set leads to any other shard than these from now on.
pub(crate) fn use_only(tx: &mut Transaction<'_>, used: &BTreeSet<Digest>) -> anyhow::Result<()> {
    let used: Vec<String> = used.iter().map(Digest::to_string).collect();
    tx.execute(
        "UPDATE shards SET unused_since = now() WHERE unused_since IS NULL AND NOT digest = ANY($1)",
        &[&used],
    )?;
    Ok(())
}

/// Removes shards that no set has led to for a while.
pub(crate) fn remove_unused_shards(client: &mut Client) -> anyhow::Result<u64> {
    Ok(client.execute(
        "DELETE FROM shards WHERE digest = ANY(ARRAY(
             SELECT digest FROM shards WHERE unused_since < now() - make_interval(secs => $1) LIMIT $2))",
        &[&UNUSED_SHARDS_KEPT_S, &UNUSED_SHARDS_AT_ONCE],
    )?)
}

/// The changes are in the set of this epoch.
pub(crate) fn settle_changes(
    tx: &mut Transaction<'_>,
    changes: &Changes,
    epoch: Epoch,
) -> anyhow::Result<()> {
    let tenants: Vec<&str> = changes.names.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let functions: Vec<&str> = changes.names.iter().map(|(_, name)| name.as_str()).collect();
    tx.execute("DELETE FROM changed_functions WHERE id = ANY($1)", &[&changes.rows])?;
    tx.execute(
        "UPDATE functions f SET set_epoch = $3 FROM unnest($1::text[], $2::text[]) AS changed (tenant, name)
         WHERE f.tenant = changed.tenant AND f.name = changed.name",
        &[&tenants, &functions, &i64::try_from(epoch.0)?],
    )?;
    Ok(())
}

/// Stores a serving set, forgets old ones, and wakes whoever passes it on. `false` when another signer stored one of that
/// epoch.
pub(crate) fn store(
    tx: &mut Transaction<'_>,
    set: &ServingSet,
    generation: i64,
    envelope: &str,
) -> anyhow::Result<bool> {
    let (epoch, digest) = (i64::try_from(set.epoch.0)?, Digest::of(envelope.as_bytes()).to_string());
    let (shard, functions) = (set.functions.digest.to_string(), i32::try_from(set.functions.functions)?);
    let revoked_calls = set.revoked_calls.map(|digest| digest.to_string());
    let stored = tx.execute(
        "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at, shard, functions,
                                   revoked_calls)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT ON CONSTRAINT serving_sets_pkey DO NOTHING",
        &[
            &epoch,
            &generation,
            &digest,
            &envelope,
            &set.issued_at,
            &set.expires_at,
            &shard,
            &functions,
            &revoked_calls,
        ],
    )?;
    if stored == 0 {
        return Ok(false);
    }
    tx.execute("DELETE FROM serving_sets WHERE epoch <= $1", &[&(epoch - SERVING_SETS_KEPT)])?;
    let detail = json!({"generation": generation, "digest": digest, "functions": functions});
    audit(tx, "serving_set.signed", "", &epoch.to_string(), &detail)?;
    tx.execute("SELECT pg_notify('mfaas_serving_set', $1)", &[&epoch.to_string()])?;
    Ok(true)
}

fn call_key(row: &Row) -> anyhow::Result<CallKey> {
    Ok(CallKey {
        keyid: KeyId(text(row, "id")?),
        public: mfaas_attest::PublicKey::from_hex(&row.try_get::<_, String>("public_key")?)?,
        not_after: row.try_get("not_after")?,
    })
}
