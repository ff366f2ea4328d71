//! What PostgreSQL is told of other stores: which resources lie there, and the audit records of what was changed there.

use std::collections::BTreeSet;

use mfaas_ident::ResourceName;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::KvError;
use crate::connections::Connections;
use crate::error::Meaning;
use crate::redis::AuditRecord;
use crate::retry::read;
use crate::store::Store;

/// How often it is tried to claim a home that others claim at the same time.
const CLAIM_TRIES: u32 = 20;

impl Store {
    /// Which resources lie in servers, and in which.
    pub(crate) async fn homes(&self) -> Result<Vec<(ResourceName, Uuid)>, KvError> {
        let ask = || self.other.fetch_all(sqlx::query_as("SELECT resource, server FROM homes"));
        let rows: Vec<(String, Uuid)> = read(ask).await?;
        Ok(rows.into_iter().filter_map(|(name, server)| Some((name.parse().ok()?, server))).collect())
    }

    /// These resources lie in this server from now on, and nowhere else: nobody writes to them here any more. All of them, or none.
    pub(crate) async fn claim_homes(
        &self,
        resources: &BTreeSet<ResourceName>,
        server: Uuid,
        name: &str,
    ) -> Result<(), KvError> {
        for _ in 0..CLAIM_TRIES {
            match self.try_claim_homes(resources, server, name).await {
                Err(KvError::Unavailable(error)) if Meaning::of(&error) == Meaning::Contention => {}
                claimed => return claimed,
            }
        }
        Err(KvError::Busy)
    }

    async fn try_claim_homes(
        &self,
        resources: &BTreeSet<ResourceName>,
        server: Uuid,
        name: &str,
    ) -> Result<(), KvError> {
        let mut taken = self.commits.take().await.map_err(KvError::unavailable)?;
        let claimed = claim(&self.commits, taken.connection(), resources, server, name).await;
        let wrong = match taken.answered(claimed).map_err(KvError::unavailable)? {
            None => return Ok(()),
            Some((resource, other)) if other.is_empty() => format!(
                "`{resource}` has entries in PostgreSQL: delete them there first, or leave it out of the file"
            ),
            Some((resource, other)) => format!(
                "`{resource}` lies in another server, which was called `{other}`; if this one is new or has lost its data \
                 and that is meant so, delete its row from mfaas_data.homes"
            ),
        };
        Err(KvError::Server { server: name.to_owned(), wrong })
    }

    /// Writes audit records of calls, with all of a call, unless they are there: how many it wrote.
    pub(crate) async fn keep_audit(&self, records: &[AuditRecord]) -> Result<u64, KvError> {
        let texts = |of: fn(&AuditRecord) -> &str| records.iter().map(of).collect::<Vec<_>>();
        let insert = sqlx::query(
            "WITH moved AS (
                 SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[],
                     $8::bytea[], $9::text[], $10::integer[])
                     AS moved (at_ms, call, tenant, function, version, trace, resource, key, operation, bytes)
             ), fresh AS (
                 INSERT INTO moved_calls (call) SELECT DISTINCT call FROM moved ORDER BY call
                 ON CONFLICT DO NOTHING RETURNING call
             )
             INSERT INTO audit (at, call, tenant, function, version, trace, resource, key_sha256, operation, bytes)
             SELECT to_timestamp(at_ms / 1000.0), call, tenant, function, version, trace, resource, sha256(key), operation, bytes
             FROM moved WHERE call IN (SELECT call FROM fresh)",
        )
        .bind(records.iter().map(|record| record.at_ms).collect::<Vec<_>>())
        .bind(records.iter().map(|record| record.caller.call).collect::<Vec<_>>())
        .bind(texts(|record| record.caller.tenant.as_str()))
        .bind(texts(|record| record.caller.function.as_str()))
        .bind(records.iter().map(|record| i64::from(record.caller.version.get())).collect::<Vec<_>>())
        .bind(records.iter().map(|record| record.caller.trace.as_deref()).collect::<Vec<_>>())
        .bind(texts(|record| record.resource.as_str()))
        .bind(records.iter().map(|record| &*record.key).collect::<Vec<_>>())
        .bind(texts(|record| record.operation))
        .bind(records.iter().map(|record| record.bytes).collect::<Vec<_>>());
        self.change(insert).await
    }
}

/// Claims all of them, or none: then one that lies elsewhere, and how the server is called where it lies, which is nothing for
/// PostgreSQL.
async fn claim<'r>(
    of: &Connections,
    connection: &mut PgConnection,
    resources: &'r BTreeSet<ResourceName>,
    server: Uuid,
    name: &str,
) -> Result<Option<(&'r ResourceName, String)>, sqlx::Error> {
    let mut claim = of.within(connection.begin()).await?;
    for resource in resources {
        let asked = sqlx::query_scalar("SELECT claim_home($1, $2, $3)");
        let asked = asked.bind(resource.as_str()).bind(server).bind(name);
        let home: Option<String> = of.within(asked.fetch_one(&mut *claim)).await?;
        if let Some(home) = home {
            of.within(claim.rollback()).await?;
            return Ok(Some((resource, home)));
        }
    }
    of.within(claim.commit()).await?;
    Ok(None)
}
