//! What the acquirer writes: archives, reports, reviews, dependency caches, and the end of waiting.
//!
//! There is one acquirer at a time for a site, since a site has one resolution. A lock of the database that
//! belongs to its one connection says who; every step of it is a transaction of that same connection, so an
//! acquirer that lost its lock has also lost its means to write. Every step can be repeated: what a kill
//! leaves behind is a request in the status that it had.

use std::collections::BTreeSet;

use mfaas_ident::{CrateName, Digest, ToolchainId};
use mfaas_rules::crate_facts::{AdvisorySet, AuditSet, CrateReport, TrialBuild};
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::{AllowlistSnapshot, Code, CrateJudgement, CrateStatus, People};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection, Postgres, Row as _};

use crate::allowlist::{CacheContents, CrateClosure, hold_decisions, resume, snapshot};
use crate::audit::{self, Entry};
use crate::crate_files::{self, CrateFile};
use crate::decode::{Decoded, bad, int8, json, parsed, unsigned};
use crate::requests::{self, Request, RequestStatus, end_requests, finding, version};
use crate::reviews::grants;
use crate::{Actor, Catalog, CatalogError};

/// The advisory lock of the site's acquirer; the number only has to differ from other programs' locks.
const ACQUIRER_LOCK: i64 = 0x6d66_6161_7341_6371;

/// The one acquirer of the site.
#[derive(Debug)]
pub struct Acquirer {
    pub(crate) connection: PoolConnection<Postgres>,
    /// The revision of which every archive has a line. Nobody else stores archives or lines, so that holds until the
    /// next archive.
    pub(crate) all_indexed: Option<u32>,
    actor: Actor,
}

/// A crate version of a resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedMember {
    /// The package.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// sha256 of the `.crate` file.
    pub checksum: Digest,
    /// Features that it is compiled with.
    pub features: Vec<String>,
    /// From the crate that was asked for to this one.
    pub path: Vec<String>,
    /// What has to happen before it may be used.
    pub outcome: MemberOutcome,
}

/// What the rules say about a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberOutcome {
    /// It is allowed like this.
    Allowed,
    /// The rules admit it by themselves.
    Admit {
        /// Which rules.
        rules_revision: String,
    },
    /// People have to decide.
    Review {
        /// How many.
        people: People,
        /// The suggestion, for the reviewers.
        judgement: CrateJudgement,
        /// Key of its report, which is stored.
        report: Digest,
        /// How compiling it as it would be offered ended.
        trial: TrialBuild,
    },
}

/// What a request comes down to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedRequest {
    /// The request.
    pub request: i64,
    /// The version that fits it.
    pub chosen: semver::Version,
    /// The crate itself and everything that it pulls in.
    pub members: Vec<ResolvedMember>,
}

/// A crate that the site offers beyond what ships.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// The package.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// Features that it is compiled with.
    pub features: Vec<String>,
    /// Whether tenants may name it.
    pub direct: bool,
    /// What it was granted of the standard library.
    pub grants: BTreeSet<Capability>,
}

/// A dependency cache that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyCache {
    /// Its key, which is the name of its directory.
    pub key: Digest,
    /// The key of the cache that ships, in whose place it is used.
    pub base: Digest,
    /// What compiled it.
    pub toolchain: ToolchainId,
    /// Its Cargo.lock.
    pub lock: String,
    /// The blob that builders on other hosts fetch it from; `None` for what ships, and before an acquirer of this release
    /// has stored it.
    pub archive: Option<CacheArchive>,
}

/// A dependency cache as a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheArchive {
    /// Its name in the blob store.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
}

impl Catalog {
    /// Becomes the site's acquirer; `None` while another one is.
    pub async fn become_acquirer(&self) -> Result<Option<Acquirer>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        let locked: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)")
            .bind(ACQUIRER_LOCK)
            .fetch_one(&mut *connection)
            .await?;
        // The lock ends with the connection, which must not go back to others.
        connection.close_on_drop();
        let actor = Actor::program("mfaas-acquirer");
        Ok(locked.then(|| Acquirer { connection, all_indexed: None, actor }))
    }

    /// The newest cache that takes the place of `base`.
    pub async fn newest_cache(
        &self,
        base: &Digest,
        toolchain: &ToolchainId,
    ) -> Result<Option<DependencyCache>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        newest_cache(&mut connection, base, toolchain).await
    }

    /// Those of these caches in place of `base` that a newer one has taken the place of.
    pub async fn replaced_caches(
        &self,
        base: &Digest,
        toolchain: &ToolchainId,
        among: &[Digest],
    ) -> Result<Vec<Digest>, CatalogError> {
        let among: Vec<String> = among.iter().map(Digest::to_string).collect();
        let rows = sqlx::query(
            "SELECT c.key FROM dependency_caches c WHERE c.key = ANY($3) AND c.base = $1 AND c.toolchain = $2
             AND c.id < (SELECT n.id FROM dependency_caches n WHERE n.base = $1 AND n.toolchain = $2
                         ORDER BY n.id DESC LIMIT 1)",
        )
        .bind(base.to_string())
        .bind(toolchain.to_string())
        .bind(among)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(|row| parsed(row, "key")).collect::<Decoded<_>>()?)
    }
}

impl Acquirer {
    /// Requests in this status, oldest first.
    pub async fn requests(&mut self, status: RequestStatus) -> Result<Vec<Request>, CatalogError> {
        requests::with_status(&mut self.connection, status).await
    }

    /// What is allowed for the tenant of a request.
    pub async fn allowlist(
        &mut self,
        request: &Request,
        toolchain: &ToolchainId,
    ) -> Result<AllowlistSnapshot, CatalogError> {
        let mut tx = self.connection.begin().await?;
        snapshot(&mut tx, &request.tenant, toolchain).await
    }

    /// The stored report of that key.
    pub async fn report(&mut self, key: &Digest) -> Result<Option<CrateReport>, CatalogError> {
        let row: Option<Json<CrateReport>> =
            sqlx::query_scalar("SELECT report FROM crate_reports WHERE key = $1")
                .bind(key.to_string())
                .fetch_optional(&mut *self.connection)
                .await?;
        Ok(row.map(|json| json.0))
    }

    /// Stores a report, what archive it is about, and the archive's texts. The archive and each text must
    /// lie in the blob store.
    pub async fn store_report(
        &mut self,
        key: &Digest,
        report: &CrateReport,
        files: &[CrateFile],
    ) -> Result<(), CatalogError> {
        self.all_indexed = None;
        let mut tx = self.connection.begin().await?;
        let bytes = report.archive.bytes;
        add_archive(&mut tx, &report.name, &report.version, &report.checksum, bytes).await?;
        crate_files::store(&mut tx, &report.checksum, files).await?;
        sqlx::query(
            "INSERT INTO crate_reports (key, checksum, report) VALUES ($1, $2, $3)
             ON CONFLICT ON CONSTRAINT crate_reports_pkey DO NOTHING",
        )
        .bind(key.to_string())
        .bind(report.checksum.to_string())
        .bind(Json(report))
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// Writes down what a request comes down to, and opens the reviews that it needs. An open review about
    /// the same thing is joined.
    pub async fn resolved(
        &mut self,
        resolved: &ResolvedRequest,
        toolchain: &ToolchainId,
    ) -> Result<(), CatalogError> {
        let mut tx = self.connection.begin().await?;
        hold_decisions(&mut tx).await?;
        let moved = sqlx::query(
            "UPDATE crate_requests SET status = 'reviewing', chosen = $2, detail = '' WHERE id = $1 AND status = 'open'",
        )
        .bind(resolved.request)
        .bind(resolved.chosen.to_string())
        .execute(&mut *tx)
        .await?;
        if moved.rows_affected() == 0 {
            // One that is dropped ends with the connection's next statement, and would hold everybody else's decisions until then.
            tx.rollback().await?;
            return Err(CatalogError::Conflict { reason: "the request is not open any more".to_owned() });
        }
        sqlx::query("DELETE FROM request_members WHERE request_id = $1")
            .bind(resolved.request)
            .execute(&mut *tx)
            .await?;
        for member in &resolved.members {
            let review = open_review(&mut tx, member, toolchain).await?;
            add_member(&mut tx, resolved.request, member, review).await?;
            if let MemberOutcome::Admit { rules_revision } = &member.outcome {
                let direct = member.path.len() == 1;
                admit(&mut tx, &self.actor, member, direct, rules_revision, toolchain).await?;
            }
        }
        let subject = format!("request {}", resolved.request);
        let detail = serde_json::json!({
            "chosen": resolved.chosen.to_string(), "members": resolved.members.len(),
            "reviews": resolved.members.iter().filter(|m| matches!(m.outcome, MemberOutcome::Review { .. })).count(),
        });
        let entry =
            Entry { actor: &self.actor, action: "request.resolved", tenant: "", subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        Ok(tx.commit().await?)
    }

    /// Ends requests that cannot be met, whoever decides.
    pub async fn fail(&mut self, ids: &[i64], code: Code, reason: String) -> Result<(), CatalogError> {
        let mut tx = self.connection.begin().await?;
        hold_decisions(&mut tx).await?;
        end_requests(&mut tx, &self.actor, ids, RequestStatus::Failed, &finding(code, reason)).await?;
        Ok(tx.commit().await?)
    }

    /// Ends requests that everybody has agreed to and that cannot be built. What was decided for them alone is
    /// revoked with the reason, so that asking again is a new question to reviewers, who may grant more. What
    /// ships stays usable as it ships, whoever has taken the decision about it over.
    pub async fn fail_build(&mut self, ids: &[i64], code: Code, reason: &str) -> Result<(), CatalogError> {
        let mut tx = self.connection.begin().await?;
        hold_decisions(&mut tx).await?;
        let taken = sqlx::query(
            "UPDATE crates c SET status = 'revoked', decided_by = $3, decided_at = now(), reason = $2
             WHERE c.status = 'allowed' AND c.decided_by <> 'seed'
               AND NOT EXISTS (SELECT 1 FROM crate_requests q WHERE q.id = ANY($1) AND q.takeover)
               AND (c.name, c.version) IN (SELECT m.name, m.version FROM request_members m
                                           WHERE m.request_id = ANY($1))
               AND (SELECT count(*) FROM request_members m JOIN crate_requests q ON q.id = m.request_id
                    WHERE (m.name, m.version) = (c.name, c.version) AND q.status = 'ready') = 0
             RETURNING c.name, c.version, c.review_id",
        )
        .bind(ids)
        .bind(reason)
        .bind(self.actor.as_str())
        .fetch_all(&mut *tx)
        .await?;
        for row in &taken {
            let (name, version): (String, String) = (row.try_get("name")?, row.try_get("version")?);
            sqlx::query(
                "UPDATE reviews SET state = 'revoked', reason = $2, closed_at = now()
                 WHERE id = $1 AND state = 'approved'",
            )
            .bind(row.try_get::<Option<i64>, _>("review_id")?)
            .bind(reason)
            .execute(&mut *tx)
            .await?;
            let (subject, detail) = (format!("{name} {version}"), serde_json::json!({ "reason": reason }));
            let entry = Entry {
                actor: &self.actor,
                action: "crate.unbuildable",
                tenant: "",
                subject: &subject,
                detail,
            };
            audit::append(&mut tx, entry).await?;
        }
        let finding = finding(code, reason.to_owned());
        end_requests(&mut tx, &self.actor, ids, RequestStatus::Failed, &finding).await?;
        Ok(tx.commit().await?)
    }

    /// Passes on every request whose last review has said yes; one whose review was withdrawn or revoked
    /// is resolved anew. Answers how many can be built.
    pub async fn settle(&mut self) -> Result<u64, CatalogError> {
        let mut tx = self.connection.begin().await?;
        hold_decisions(&mut tx).await?;
        sqlx::query(
            "UPDATE crate_requests q SET status = 'open', chosen = NULL WHERE q.status IN ('reviewing', 'building')
             AND EXISTS (SELECT 1 FROM request_members m JOIN reviews r ON r.id = m.review_id
                         WHERE m.request_id = q.id AND r.state IN ('withdrawn', 'revoked'))",
        )
        .execute(&mut *tx)
        .await?;
        let ready = sqlx::query(
            "UPDATE crate_requests q SET status = 'building' WHERE q.status = 'reviewing'
             AND (SELECT count(*) FROM request_members m JOIN reviews r ON r.id = m.review_id
                  WHERE m.request_id = q.id AND r.state <> 'approved') = 0",
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(ready.rows_affected())
    }

    /// Everything that the site's reviewers and rules allow beyond what ships, for this toolchain, as far as
    /// it was built before or these requests ask for it: what could not be built once must not stand in the
    /// way of everything else.
    pub async fn extras(
        &mut self,
        toolchain: &ToolchainId,
        building: &[i64],
    ) -> Result<Vec<Extra>, CatalogError> {
        let rows = sqlx::query(
            "SELECT name, version, features, direct, grants FROM crates
             WHERE status = 'allowed' AND decided_by <> 'seed' AND toolchain = $1
               AND (expires_at IS NULL OR expires_at > now())
               AND (SELECT true FROM request_members m JOIN crate_requests q ON q.id = m.request_id
                    WHERE (m.name, m.version) = (crates.name, crates.version)
                      AND (q.status = 'ready' OR q.id = ANY($2)) LIMIT 1)
             ORDER BY name, version, scope",
        )
        .bind(toolchain.to_string())
        .bind(building)
        .fetch_all(&mut *self.connection)
        .await?;
        let extras = rows.iter().map(extra).collect::<Result<Vec<_>, _>>()?;
        Ok(merged(extras))
    }

    /// What the world says about crates, as it was imported last. What was never imported is missing, which
    /// is not the same as empty.
    pub async fn outside(&mut self) -> Result<(AdvisorySet, AuditSet), CatalogError> {
        let rows = sqlx::query("SELECT kind, body FROM imported").fetch_all(&mut *self.connection).await?;
        let mut advisories = AdvisorySet::missing("no advisories were ever imported at this site");
        let mut audits = AuditSet::default();
        for row in &rows {
            match row.try_get::<String, _>("kind")?.as_str() {
                "advisories" => advisories = json(row, "body")?,
                "audits" => audits = json(row, "body")?,
                other => return Err(CatalogError::Conflict { reason: format!("{other} were imported") }),
            }
        }
        Ok((advisories, audits))
    }

    /// The newest cache that takes the place of `base`.
    pub async fn newest_cache(
        &mut self,
        base: &Digest,
        toolchain: &ToolchainId,
    ) -> Result<Option<DependencyCache>, CatalogError> {
        newest_cache(&mut self.connection, base, toolchain).await
    }

    /// A cache is there with these crates, and holds what these requests asked for: their deployments go on.
    pub async fn built(
        &mut self,
        cache: &DependencyCache,
        closures: &[CrateClosure],
        requests: &[i64],
    ) -> Result<(), CatalogError> {
        let mut tx = self.connection.begin().await?;
        hold_decisions(&mut tx).await?;
        let contents = CacheContents { cache: &cache.key, base: &cache.base, toolchain: &cache.toolchain };
        contents.record(&mut tx, closures).await?;
        // A site may come back to what it had, and builders open the newest.
        let recorded = sqlx::query(
            "INSERT INTO dependency_caches (key, base, toolchain, lock, archive, archive_bytes)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT ON CONSTRAINT dependency_caches_key_unique DO UPDATE
             SET id = DEFAULT, built_at = now(), archive = $5, archive_bytes = $6
             WHERE (dependency_caches.archive IS NULL AND $5 IS NOT NULL)
                OR dependency_caches.id < (SELECT n.id FROM dependency_caches n
                                           WHERE n.base = $2 AND n.toolchain = $3 ORDER BY n.id DESC LIMIT 1)",
        )
        .bind(cache.key.to_string())
        .bind(cache.base.to_string())
        .bind(cache.toolchain.to_string())
        .bind(&cache.lock)
        .bind(cache.archive.map(|archive| archive.digest.to_string()))
        .bind(cache.archive.map(|archive| int8(archive.bytes)))
        .execute(&mut *tx)
        .await?;
        if recorded.rows_affected() == 1 {
            let (subject, detail) = (cache.key.to_string(), serde_json::json!({ "base": cache.base }));
            let entry = Entry {
                actor: &self.actor,
                action: "dependencies.built",
                tenant: "",
                subject: &subject,
                detail,
            };
            audit::append(&mut tx, entry).await?;
        }
        let waiting: Vec<uuid::Uuid> = sqlx::query_scalar(
            "WITH done AS (
                 UPDATE crate_requests SET status = 'ready', decided_at = now()
                 WHERE id = ANY($1) AND status = 'building' RETURNING deployment_id)
             SELECT DISTINCT d.id FROM done JOIN deployments d ON d.id = done.deployment_id WHERE d.state = 'waiting'
               AND NOT EXISTS (SELECT 1 FROM crate_requests q WHERE q.deployment_id = d.id AND NOT q.id = ANY($1)
                               AND q.status IN ('open', 'reviewing', 'building'))
             ORDER BY d.id",
        )
        .bind(requests)
        .fetch_all(&mut *tx)
        .await?;
        resume(&mut tx, &self.actor, &waiting).await?;
        Ok(tx.commit().await?)
    }
}

async fn newest_cache(
    connection: &mut PgConnection,
    base: &Digest,
    toolchain: &ToolchainId,
) -> Result<Option<DependencyCache>, CatalogError> {
    let row = sqlx::query(
        "SELECT key, base, toolchain, lock, archive, archive_bytes FROM dependency_caches WHERE base = $1 AND toolchain = $2
         ORDER BY id DESC LIMIT 1",
    )
    .bind(base.to_string())
    .bind(toolchain.to_string())
    .fetch_optional(connection)
    .await?;
    Ok(row.as_ref().map(cache).transpose()?)
}

async fn open_review(
    connection: &mut PgConnection,
    member: &ResolvedMember,
    toolchain: &ToolchainId,
) -> Result<Option<i64>, CatalogError> {
    let MemberOutcome::Review { people, judgement, report, trial } = &member.outcome else {
        return Ok(None);
    };
    // Votes for other facts, or under other rules, are no votes for these; whoever waits is resolved anew.
    sqlx::query(
        "UPDATE reviews SET state = 'withdrawn', reason = 'it was looked at anew', closed_at = now()
         WHERE (name, version, checksum, features, toolchain) = ($1, $2, $3, $4, $5) AND state = 'open'
           AND (people, report, rules_revision) <> ($6, $7, $8)",
    )
    .bind(member.name.as_str())
    .bind(member.version.to_string())
    .bind(member.checksum.to_string())
    .bind(&member.features)
    .bind(toolchain.to_string())
    .bind(i16::from(u8::from(*people)))
    .bind(report.to_string())
    .bind(&judgement.rules_revision)
    .execute(&mut *connection)
    .await?;
    let id = sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement, trial)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (name, version, checksum, features, toolchain, scope) WHERE state = 'open' DO NOTHING
             RETURNING id),
         joined AS (
             -- The newest trial is about the site as it is.
             UPDATE reviews SET trial = $10
             WHERE (name, version, checksum, features, toolchain) = ($1, $2, $3, $4, $5) AND state = 'open'
             RETURNING id)
         SELECT id FROM made UNION ALL SELECT id FROM joined LIMIT 1",
    )
    .bind(member.name.as_str())
    .bind(member.version.to_string())
    .bind(member.checksum.to_string())
    .bind(&member.features)
    .bind(toolchain.to_string())
    .bind(report.to_string())
    .bind(i16::from(u8::from(*people)))
    .bind(&judgement.rules_revision)
    .bind(Json(judgement))
    .bind(Json(trial))
    .fetch_one(connection)
    .await?;
    Ok(Some(id))
}

async fn add_member(
    connection: &mut PgConnection,
    request: i64,
    member: &ResolvedMember,
    review: Option<i64>,
) -> Result<(), CatalogError> {
    sqlx::query(
        "INSERT INTO request_members (request_id, name, version, checksum, features, path, review_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(request)
    .bind(member.name.as_str())
    .bind(member.version.to_string())
    .bind(member.checksum.to_string())
    .bind(&member.features)
    .bind(&member.path)
    .bind(review)
    .execute(connection)
    .await?;
    Ok(())
}

/// The row of a crate that the rules admit by themselves.
async fn admit(
    connection: &mut PgConnection,
    actor: &Actor,
    member: &ResolvedMember,
    direct: bool,
    rules_revision: &str,
    toolchain: &ToolchainId,
) -> Result<(), CatalogError> {
    let decided_by = format!("rules {rules_revision}");
    sqlx::query(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason, toolchain)
         VALUES ($1, $2, $3, $4, $5, 'allowed', $6, $7, $8)
         ON CONFLICT ON CONSTRAINT crates_pkey DO UPDATE
         SET checksum = excluded.checksum, features = excluded.features, direct = crates.direct OR excluded.direct,
             status = 'allowed', decided_by = excluded.decided_by, decided_at = now(), reason = excluded.reason,
             toolchain = excluded.toolchain
         WHERE crates.status = 'allowed'",
    )
    .bind(member.name.as_str())
    .bind(member.version.to_string())
    .bind(member.checksum.to_string())
    .bind(&member.features)
    .bind(direct)
    .bind(&decided_by)
    .bind("nothing was found that a person has to look at")
    .bind(toolchain.to_string())
    .execute(&mut *connection)
    .await?;
    let subject = format!("{} {}", member.name, member.version);
    let detail = serde_json::json!({ "rules": rules_revision, "checksum": member.checksum });
    audit::append(
        connection,
        Entry { actor, action: "crate.admitted", tenant: "", subject: &subject, detail },
    )
    .await
}

/// Whether the allowlist lets `member` in as it is resolved, by name if it was asked for by name.
pub fn is_allowed(member: &ResolvedMember, allowlist: &AllowlistSnapshot) -> bool {
    let row = allowlist.crates.iter().find(|row| row.name == member.name && row.version == member.version);
    row.is_some_and(|row| {
        row.status == CrateStatus::Allowed
            && row.checksum == member.checksum.to_string()
            && member.features.iter().all(|feature| row.features.contains(feature))
            && (row.direct || member.path.len() > 1)
    })
}

fn extra(row: &PgRow) -> Decoded<Extra> {
    Ok(Extra {
        name: parsed(row, "name")?,
        version: version(row, "version")?,
        features: row.try_get("features")?,
        direct: row.try_get("direct")?,
        grants: grants(row)?,
    })
}

/// One entry for each version: what was decided for several tenants is compiled once, with all of it.
fn merged(extras: Vec<Extra>) -> Vec<Extra> {
    let mut found: Vec<Extra> = Vec::new();
    for extra in extras {
        match found.last_mut().filter(|last| (&last.name, &last.version) == (&extra.name, &extra.version)) {
            Some(last) => {
                last.features.extend(extra.features);
                last.features.sort();
                last.features.dedup();
                last.direct |= extra.direct;
                last.grants.extend(extra.grants);
            }
            None => found.push(extra),
        }
    }
    found
}

fn cache(row: &PgRow) -> Decoded<DependencyCache> {
    let toolchain: String = row.try_get("toolchain")?;
    Ok(DependencyCache {
        key: parsed(row, "key")?,
        base: parsed(row, "base")?,
        toolchain: toolchain.parse().map_err(|e| bad("toolchain", e))?,
        lock: row.try_get("lock")?,
        archive: match row.try_get::<Option<String>, _>("archive")? {
            None => None,
            Some(_) => {
                Some(CacheArchive { digest: parsed(row, "archive")?, bytes: unsigned(row, "archive_bytes")? })
            }
        },
    })
}

/// An archive's row; one that is there stays.
pub(crate) async fn add_archive(
    connection: &mut PgConnection,
    name: &CrateName,
    version: &semver::Version,
    checksum: &Digest,
    bytes: u64,
) -> Result<(), CatalogError> {
    sqlx::query(
        "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ($1, $2, $3, $4)
         ON CONFLICT ON CONSTRAINT crate_archives_pkey DO NOTHING",
    )
    .bind(checksum.to_string())
    .bind(name.as_str())
    .bind(version.to_string())
    .bind(int8(bytes))
    .execute(connection)
    .await?;
    Ok(())
}
