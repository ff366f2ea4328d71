//! Sessions of the console and answers of the OpenID provider, which all servers of a site share.
//!
//! Only hashes come here: of a session's cookie, of an attempt to sign in. How many there are, and how long, the database
//! bounds itself. Must never be told a cookie.

use std::time::Duration;

use mfaas_ident::Digest;
use uuid::Uuid;

use crate::{Catalog, CatalogError};

/// Sessions of one token that are open at once; the oldest makes room. The database holds it.
pub const TOKEN_SESSIONS_MAX: usize = 16;
/// Answers of the OpenID provider that are remembered; the oldest is forgotten first. The database holds it.
pub const SIGN_IN_ANSWERS_MAX: usize = 4_096;

impl Catalog {
    /// Opens a session of a token for `life`, a day at most.
    pub async fn open_session(
        &self,
        cookie_sha256: &Digest,
        token: Uuid,
        life: Duration,
    ) -> Result<(), CatalogError> {
        sqlx::query(
            "INSERT INTO sessions (cookie_sha256, token_id, expires_at)
             VALUES ($1, $2, now() + make_interval(secs => $3))",
        )
        .bind(cookie_sha256.to_string())
        .bind(token)
        .bind(life.as_secs_f64())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Ends a session, at every server. Repeatable.
    pub async fn close_session(&self, cookie_sha256: &Digest) -> Result<(), CatalogError> {
        let ended = sqlx::query("DELETE FROM sessions WHERE cookie_sha256 = $1");
        ended.bind(cookie_sha256.to_string()).execute(&self.pool).await?;
        Ok(())
    }

    /// Remembers that an attempt to sign in was answered; `false` when it was before, at whichever server.
    pub async fn take_sign_in_answer(&self, attempt_sha256: &Digest) -> Result<bool, CatalogError> {
        let taken = sqlx::query(
            "INSERT INTO sign_in_answers (attempt_sha256) VALUES ($1)
             ON CONFLICT ON CONSTRAINT sign_in_answers_pkey DO NOTHING",
        );
        let taken = taken.bind(attempt_sha256.to_string()).execute(&self.pool).await?;
        Ok(taken.rows_affected() == 1)
    }
}
