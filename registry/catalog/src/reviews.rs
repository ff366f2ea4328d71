//! Reviews: what is asked about a crate, who said what, and the decision that comes of it.
//!
//! What an act leads to is said by `mfaas_rules::review`; here it is made durable, together with the row of
//! the allowlist, the end of what waits, and the audit rows, in one transaction. Triggers hold the same rules
//! again: whoever gets round this code finds them in the way.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use mfaas_ident::{CrateName, DeploymentId, Digest, FunctionName, PersonName, TenantName, ToolchainId};
use mfaas_rules::crate_facts::{AdvisorySet, CrateReport, TrialBuild};
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::review::{HotspotState, Review, ReviewAct, ReviewRefusal, ReviewState, Terms};
use mfaas_rules::{CrateJudgement, People, codes, refusing_advisory};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};

use crate::allowlist::hold_decisions;
use crate::audit::{self, Entry};
use crate::connection::retried;
use crate::decode::{Decoded, bad, json, parsed, word};
use crate::requests::{RequestStatus, end_requests, finding, version, wake_acquirer};
use crate::{Actor, Catalog, CatalogError, Token};

/// A vote.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Vote {
    /// Whose.
    pub person: PersonName,
    /// For or against.
    pub approve: bool,
    /// In their words.
    pub note: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// What somebody found at a hotspot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotspotNote {
    /// File, line, column and kind.
    pub hotspot: String,
    /// What is there.
    pub state: HotspotState,
    /// Why.
    pub note: String,
    /// Who looked last.
    pub person: PersonName,
    /// When.
    pub at: DateTime<Utc>,
}

/// A review with everything that was said in it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewRow {
    /// Its number.
    pub id: i64,
    /// The package.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// sha256 of the `.crate` file.
    pub checksum: Digest,
    /// Features that it is to be compiled with.
    pub features: Vec<String>,
    /// The compiler that it is for.
    pub toolchain: ToolchainId,
    /// Key of the report of facts.
    pub report: Digest,
    /// How many votes it takes.
    pub people: People,
    /// The rules that made the suggestion.
    pub rules_revision: String,
    /// The suggestion, as the rules made it.
    pub judgement: CrateJudgement,
    /// How compiling it as it would be offered ended; `None` for a review from before there were trials.
    pub trial: Option<TrialBuild>,
    /// The terms of the first yes.
    pub terms: Terms,
    /// Where it stands.
    pub state: ReviewState,
    /// The words that ended it.
    pub reason: String,
    /// Since when.
    pub opened_at: DateTime<Utc>,
    /// When it ended.
    pub closed_at: Option<DateTime<Utc>>,
    /// Who asked.
    pub requesters: Vec<PersonName>,
    /// Deployments that wait for it.
    pub waiting: u32,
    /// Who said what, oldest first.
    pub votes: Vec<Vote>,
}

/// Somebody who asked for what a review is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The request.
    pub request: i64,
    /// Whose function needs it.
    pub tenant: TenantName,
    /// Who asks; `None` for uploads from before there were persons.
    pub person: Option<PersonName>,
    /// The crate that was asked for, which may be another one.
    pub name: CrateName,
    /// Which versions would do, as written.
    pub requirement: String,
    /// From the crate that was asked for to this one.
    pub path: Vec<String>,
    /// The deployment that asked and its function; `None` when a person did.
    pub deployment: Option<(DeploymentId, FunctionName)>,
    /// The deployment still waits.
    pub waits: bool,
}

/// A vote to be cast.
#[derive(Debug, Clone)]
pub struct NewVote<'a> {
    /// Which review.
    pub review: i64,
    /// The token that it is given with, which names the person.
    pub token: &'a Token,
    /// A yes on these terms; `None` is a no.
    pub approve: Option<&'a Terms>,
    /// In their words, 1 to 4,000 characters.
    pub note: &'a str,
}

/// Why nobody can approve a crate whose facts are of another revision.
pub const UNREADABLE: &str = "The facts cannot be read: nobody can approve what nobody can look at.";

const SELECT: &str = "SELECT r.id, r.name, r.version, r.checksum, r.features, r.toolchain, r.report, r.people,
        r.rules_revision, r.judgement, r.trial, r.scope, r.grants, r.expires_at, r.state, r.reason, r.opened_at, r.closed_at,
        ARRAY(SELECT DISTINCT q.requested_by FROM request_members m JOIN crate_requests q ON q.id = m.request_id
              WHERE m.review_id = r.id AND q.requested_by <> '' ORDER BY 1) AS requesters,
        (SELECT count(DISTINCT d.id) FROM request_members m JOIN crate_requests q ON q.id = m.request_id
         JOIN deployments d ON d.id = q.deployment_id
         WHERE m.review_id = r.id AND d.state = 'waiting') AS waiting,
        coalesce((SELECT jsonb_agg(jsonb_build_object('person', v.person, 'approve', v.approve, 'note', v.note,
                                                      'at', v.at) ORDER BY v.at, v.person)
                  FROM votes v WHERE v.review_id = r.id), '[]') AS votes
    FROM reviews r";

impl Catalog {
    /// Reviews behind `after`, oldest first; in one state or in all.
    pub async fn reviews(
        &self,
        state: Option<ReviewState>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ReviewRow>, CatalogError> {
        // Two statements, each with its index: with an equality the planner would walk along the numbers for a state that
        // few have.
        let sql = match state {
            Some(_) => format!(
                "{SELECT} WHERE r.id = ANY (ARRAY(
                     SELECT id FROM reviews WHERE (state, id) > ($2, $1) AND (state, id) <= ($2, 9223372036854775807)
                     ORDER BY state, id LIMIT $3)) ORDER BY r.id"
            ),
            None => format!("{SELECT} WHERE r.id > $1 AND $2::text IS NULL ORDER BY r.id LIMIT $3"),
        };
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(after)
            .bind(state.map(ReviewState::as_str))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(review_row).collect::<Result<_, _>>()?)
    }

    /// Reviews that ended in this state, the last ones first.
    pub async fn closed_reviews(
        &self,
        state: ReviewState,
        limit: u32,
    ) -> Result<Vec<ReviewRow>, CatalogError> {
        let sql = format!("{SELECT} WHERE r.state = $1 ORDER BY r.closed_at DESC, r.id DESC LIMIT $2");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(state.as_str())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(review_row).collect::<Result<_, _>>()?)
    }

    /// Who asked for what a review is about, and what waits for it, oldest first.
    pub async fn askers(&self, review: i64, limit: u32) -> Result<Vec<Asker>, CatalogError> {
        let rows = sqlx::query(
            "SELECT q.id, q.tenant, q.requested_by, q.name, q.requirement, m.path, d.id AS deployment, d.function,
                    d.state = 'waiting' AS waits
             FROM request_members m JOIN crate_requests q ON q.id = m.request_id
             LEFT JOIN deployments d ON d.id = q.deployment_id
             WHERE m.review_id = $1 ORDER BY q.id LIMIT $2",
        )
        .bind(review)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(asker).collect::<Result<_, _>>()?)
    }

    /// Every review of a crate, newest first.
    pub async fn reviews_of(&self, name: &CrateName) -> Result<Vec<ReviewRow>, CatalogError> {
        let sql = format!("{SELECT} WHERE r.name = $1 ORDER BY r.id DESC LIMIT 200");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(name.as_str()).fetch_all(&self.pool).await?;
        Ok(rows.iter().map(review_row).collect::<Result<_, _>>()?)
    }

    /// One review.
    pub async fn review(&self, id: i64) -> Result<ReviewRow, CatalogError> {
        let sql = format!("{SELECT} WHERE r.id = $1");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id).fetch_optional(&self.pool).await?;
        Ok(review_row(&row.ok_or(CatalogError::NotFound { what: "review" })?)?)
    }

    /// What was found at its hotspots, by hotspot.
    pub async fn hotspot_notes(&self, review: i64) -> Result<Vec<HotspotNote>, CatalogError> {
        let rows = sqlx::query(
            "SELECT spot, state, note, person, at FROM spot_notes WHERE review_id = $1 ORDER BY spot",
        )
        .bind(review)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(hotspot_note).collect::<Result<_, _>>()?)
    }

    /// The facts of that key.
    pub async fn crate_report(&self, key: &Digest) -> Result<serde_json::Value, CatalogError> {
        let report = sqlx::query_scalar("SELECT report FROM crate_reports WHERE key = $1")
            .bind(key.to_string())
            .fetch_optional(&self.pool)
            .await?;
        report.ok_or(CatalogError::NotFound { what: "report" })
    }

    /// Casts a vote. With the last one that it takes, the decision is made, and everything that follows
    /// from it: the crate's row, and after a no the end of whatever waited for it.
    pub async fn vote(&self, vote: &NewVote<'_>) -> Result<ReviewState, CatalogError> {
        retried!(self.vote_once(vote))
    }

    async fn vote_once(&self, vote: &NewVote<'_>) -> Result<ReviewState, CatalogError> {
        let (person, actor) = (&vote.token.person, &Actor::token(vote.token));
        let mut tx = self.begin().await?;
        hold_decisions(&mut tx).await?;
        let (mut review, trial) = lock(&mut tx, vote.review).await?;
        let first = review.votes.is_empty();
        let act = ReviewAct::Vote { person: person.clone(), approve: vote.approve.cloned() };
        let state = review.act(act)?;
        if let Some(terms) = vote.approve {
            refuse_unreadable(&mut tx, vote.review).await?;
            refuse_against_advisories(&mut tx, vote.review).await?;
            if let Some(reason) = trial.and_then(|trial| trial.objection(&terms.grants)) {
                return Err(CatalogError::Conflict { reason });
            }
        }
        if let Some(terms) = vote.approve.filter(|_| first) {
            set_terms(&mut tx, vote.review, terms).await?;
        }
        sqlx::query(
            "INSERT INTO votes (review_id, person, approve, note, actor, token_id) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(vote.review)
        .bind(person.as_str())
        .bind(vote.approve.is_some())
        .bind(vote.note)
        .bind(actor.as_str())
        .bind(vote.token.id)
        .execute(&mut *tx)
        .await?;
        let subject = format!("review {}", vote.review);
        // Who named the person stands beside them: an admin can make tokens for two.
        let detail = serde_json::json!({
            "person": person, "identity_source": vote.token.identity_source, "token_made_by": vote.token.made_by,
            "approve": vote.approve.is_some(), "terms": vote.approve,
        });
        let entry = Entry { actor, action: "review.voted", tenant: "", subject: &subject, detail };
        audit::append(&mut tx, entry).await?;
        match state {
            ReviewState::Approved => approve(&mut tx, vote, &review).await?,
            ReviewState::Denied => deny(&mut tx, vote).await?,
            ReviewState::Open | ReviewState::Revoked | ReviewState::Withdrawn => {}
        }
        tx.commit().await?;
        Ok(state)
    }

    /// Says what is at a hotspot, in place of what was said before.
    pub async fn mark_hotspot(
        &self,
        actor: &Actor,
        person: &PersonName,
        review: i64,
        hotspot: &str,
        found: (HotspotState, &str),
    ) -> Result<(), CatalogError> {
        let (state, note) = found;
        let mut tx = self.begin().await?;
        lock(&mut tx, review).await?.0.act(ReviewAct::Mark {
            person: person.clone(),
            hotspot: hotspot.to_owned(),
            state,
        })?;
        sqlx::query(
            "INSERT INTO spot_notes (review_id, spot, state, note, person) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT ON CONSTRAINT spot_notes_pkey DO UPDATE SET state = $3, note = $4, person = $5, at = now()",
        )
        .bind(review)
        .bind(hotspot)
        .bind(state.as_str())
        .bind(note)
        .bind(person.as_str())
        .execute(&mut *tx)
        .await?;
        let detail =
            serde_json::json!({ "person": person, "hotspot": hotspot, "state": state, "note": note });
        let subject = format!("review {review}");
        audit::append(
            &mut tx,
            Entry { actor, action: "review.marked", tenant: "", subject: &subject, detail },
        )
        .await?;
        Ok(tx.commit().await?)
    }
}

impl From<ReviewRefusal> for CatalogError {
    fn from(refusal: ReviewRefusal) -> Self {
        Self::Conflict { reason: refusal.to_string() }
    }
}

/// The review as its rules see it, and how its trial ended, locked until the transaction ends.
async fn lock(connection: &mut PgConnection, id: i64) -> Result<(Review, Option<TrialBuild>), CatalogError> {
    sqlx::query("SELECT 1 FROM reviews WHERE id = $1 FOR UPDATE")
        .bind(id)
        .fetch_optional(&mut *connection)
        .await?
        .ok_or(CatalogError::NotFound { what: "review" })?;
    let sql = format!("{SELECT} WHERE r.id = $1");
    let row = review_row(&sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id).fetch_one(&mut *connection).await?)?;
    let unsound: Vec<String> =
        sqlx::query_scalar("SELECT spot FROM spot_notes WHERE review_id = $1 AND state = 'unsound'")
            .bind(id)
            .fetch_all(connection)
            .await?;
    let review = Review {
        people: row.people,
        state: row.state,
        requesters: row.requesters.into_iter().collect(),
        votes: row.votes.into_iter().map(|vote| (vote.person, vote.approve)).collect::<BTreeMap<_, _>>(),
        terms: row.terms,
        unsound: unsound.into_iter().collect::<BTreeSet<_>>(),
    };
    Ok((review, row.trial))
}

/// Nobody approves what nobody can look at: facts of a revision that this release does not read.
async fn refuse_unreadable(connection: &mut PgConnection, id: i64) -> Result<(), CatalogError> {
    let report: serde_json::Value = sqlx::query_scalar(
        "SELECT c.report FROM crate_reports c JOIN reviews r ON r.report = c.key WHERE r.id = $1",
    )
    .bind(id)
    .fetch_one(connection)
    .await?;
    match serde_json::from_value::<CrateReport>(report) {
        Ok(_) => Ok(()),
        Err(_) => Err(CatalogError::Conflict { reason: UNREADABLE.to_owned() }),
    }
}

/// Nobody approves what an advisory refuses that came while the review was open. The lock makes an import wait,
/// which then finds what was approved.
async fn refuse_against_advisories(connection: &mut PgConnection, id: i64) -> Result<(), CatalogError> {
    let known: Option<Json<AdvisorySet>> =
        sqlx::query_scalar("SELECT body FROM imported WHERE kind = 'advisories' FOR SHARE")
            .fetch_optional(&mut *connection)
            .await?;
    let Some(Json(known)) = known else { return Ok(()) };
    let row =
        sqlx::query("SELECT name, version FROM reviews WHERE id = $1").bind(id).fetch_one(connection).await?;
    match refusing_advisory(&known, &parsed(&row, "name")?, &version(&row, "version")?) {
        None => Ok(()),
        Some(advisory) => {
            Err(CatalogError::Conflict { reason: format!("{}: {}", advisory.id, advisory.title) })
        }
    }
}

async fn set_terms(connection: &mut PgConnection, id: i64, terms: &Terms) -> Result<(), CatalogError> {
    let grants: Vec<String> = terms.grants.iter().map(|grant| grant_word(*grant)).collect();
    sqlx::query(
        "UPDATE reviews SET scope = $2, grants = $3, expires_at = to_timestamp($4::bigint) WHERE id = $1",
    )
    .bind(id)
    .bind(terms.tenant.as_ref().map_or("", TenantName::as_str))
    .bind(grants)
    .bind(terms.expires_at)
    .execute(connection)
    .await?;
    Ok(())
}

async fn approve(
    connection: &mut PgConnection,
    vote: &NewVote<'_>,
    review: &Review,
) -> Result<(), CatalogError> {
    close(connection, vote, ReviewState::Approved).await?;
    let people: Vec<&str> = review.votes.keys().map(PersonName::as_str).collect();
    decide(connection, vote, "allowed", &people.join(", ")).await?;
    wake_acquirer(connection).await
}

async fn deny(connection: &mut PgConnection, vote: &NewVote<'_>) -> Result<(), CatalogError> {
    close(connection, vote, ReviewState::Denied).await?;
    decide(connection, vote, "denied", vote.token.person.as_str()).await?;
    let row = sqlx::query(
        "SELECT r.name, r.version, ARRAY(SELECT m.request_id FROM request_members m WHERE m.review_id = r.id) AS requests
         FROM reviews r WHERE r.id = $1",
    )
    .bind(vote.review)
    .fetch_one(&mut *connection)
    .await?;
    let (name, number): (String, String) = (row.try_get("name")?, row.try_get("version")?);
    let requests: Vec<i64> = row.try_get("requests")?;
    let message = format!("crate `{name}` {number} was denied by {}: {}", vote.token.person, vote.note);
    let finding = finding(codes::MF0209, message);
    end_requests(connection, &Actor::token(vote.token), &requests, RequestStatus::Denied, &finding).await
}

async fn close(
    connection: &mut PgConnection,
    vote: &NewVote<'_>,
    state: ReviewState,
) -> Result<(), CatalogError> {
    sqlx::query("UPDATE reviews SET state = $2, reason = $3, closed_at = now() WHERE id = $1")
        .bind(vote.review)
        .bind(state.as_str())
        .bind(vote.note)
        .execute(&mut *connection)
        .await?;
    let action = if state == ReviewState::Approved { "review.approved" } else { "review.denied" };
    let (subject, detail) = (
        format!("review {}", vote.review),
        serde_json::json!({ "person": vote.token.person, "note": vote.note }),
    );
    let actor = &Actor::token(vote.token);
    audit::append(connection, Entry { actor, action, tenant: "", subject: &subject, detail }).await
}

/// Writes the row of the allowlist. Tenants may name the crate if one of the requests did.
async fn decide(
    connection: &mut PgConnection,
    vote: &NewVote<'_>,
    status: &str,
    people: &str,
) -> Result<(), CatalogError> {
    sqlx::query(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason, scope,
                             toolchain, grants, expires_at, review_id)
         SELECT r.name, r.version, r.checksum, r.features,
                EXISTS (SELECT 1 FROM request_members m JOIN crate_requests q ON q.id = m.request_id
                        WHERE m.review_id = r.id AND q.name = r.name AND q.chosen = r.version),
                $2, $3, $4, r.scope, r.toolchain, r.grants, r.expires_at, r.id
         FROM reviews r WHERE r.id = $1
         ON CONFLICT ON CONSTRAINT crates_pkey DO UPDATE
         SET checksum = excluded.checksum, features = excluded.features,
             direct = crates.direct OR excluded.direct, status = excluded.status,
             decided_by = excluded.decided_by, decided_at = now(), reason = excluded.reason,
             toolchain = excluded.toolchain, grants = excluded.grants, expires_at = excluded.expires_at,
             review_id = excluded.review_id",
    )
    .bind(vote.review)
    .bind(status)
    .bind(people)
    .bind(vote.note)
    .execute(connection)
    .await?;
    Ok(())
}

/// The capability's word, as in `capabilities.toml` and on the wire.
pub(crate) fn grant_word(grant: Capability) -> String {
    grant.name().replace('_', "-")
}

/// The capabilities of a row.
pub(crate) fn grants(row: &PgRow) -> Decoded<BTreeSet<Capability>> {
    let words: Vec<String> = row.try_get("grants")?;
    serde_json::from_value(serde_json::json!(words)).map_err(|e| bad("grants", e))
}

fn review_row(row: &PgRow) -> Decoded<ReviewRow> {
    let scope: String = row.try_get("scope")?;
    let expires_at: Option<DateTime<Utc>> = row.try_get("expires_at")?;
    let requesters: Vec<String> = row.try_get("requesters")?;
    let waiting = u32::try_from(row.try_get::<i64, _>("waiting")?).map_err(|e| bad("waiting", e))?;
    Ok(ReviewRow {
        id: row.try_get("id")?,
        name: parsed(row, "name")?,
        version: version(row, "version")?,
        checksum: parsed(row, "checksum")?,
        features: row.try_get("features")?,
        toolchain: parsed(row, "toolchain")?,
        report: parsed(row, "report")?,
        people: people(row)?,
        rules_revision: row.try_get("rules_revision")?,
        judgement: json(row, "judgement")?,
        trial: row.try_get::<Option<Json<TrialBuild>>, _>("trial")?.map(|json| json.0),
        terms: Terms {
            tenant: if scope.is_empty() { None } else { Some(parsed(row, "scope")?) },
            grants: grants(row)?,
            expires_at: expires_at.map(|at| at.timestamp()),
        },
        state: word(row, "state", ReviewState::parse)?,
        reason: row.try_get("reason")?,
        opened_at: row.try_get("opened_at")?,
        closed_at: row.try_get("closed_at")?,
        requesters: requesters
            .iter()
            .map(|text| PersonName::parse(text).map_err(|e| bad("requesters", e)))
            .collect::<Result<_, _>>()?,
        waiting,
        votes: row.try_get::<Json<Vec<Vote>>, _>("votes")?.0,
    })
}

fn asker(row: &PgRow) -> Decoded<Asker> {
    let person: String = row.try_get("requested_by")?;
    let deployment: Option<uuid::Uuid> = row.try_get("deployment")?;
    Ok(Asker {
        request: row.try_get("id")?,
        tenant: parsed(row, "tenant")?,
        person: if person.is_empty() { None } else { Some(parsed(row, "requested_by")?) },
        name: parsed(row, "name")?,
        requirement: row.try_get("requirement")?,
        path: row.try_get("path")?,
        deployment: match deployment {
            Some(id) => Some((DeploymentId(id), parsed(row, "function")?)),
            None => None,
        },
        waits: row.try_get::<Option<bool>, _>("waits")?.unwrap_or(false),
    })
}

fn people(row: &PgRow) -> Decoded<People> {
    let number = u8::try_from(row.try_get::<i16, _>("people")?).map_err(|e| bad("people", e))?;
    People::try_from(number).map_err(|rule| bad("people", NeitherOneNorTwo(rule)))
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NeitherOneNorTwo(&'static str);

fn hotspot_note(row: &PgRow) -> Decoded<HotspotNote> {
    Ok(HotspotNote {
        hotspot: row.try_get("spot")?,
        state: word(row, "state", HotspotState::parse)?,
        note: row.try_get("note")?,
        person: parsed(row, "person")?,
        at: row.try_get("at")?,
    })
}
