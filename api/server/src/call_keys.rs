//! The keys that call tokens are signed with: made here, kept in files that only the server reads, listed in the database so that
//! the signer puts their public halves into the serving set.
//!
//! They sign nothing else, and nothing else signs call tokens. Must never sign with a key that nodes have had no time to hear of
//! while an older one still counts.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{CallClaims, KeyId, PrivateKey, sign_call};
use mfaas_catalog::{Actor, Before, CallKeyRow, Catalog};

/// A key that ends sooner than this is replaced when the next token is issued: nobody has to remember it.
const RENEW_BEFORE: TimeDelta = TimeDelta::days(30);

/// The directory with the private keys.
#[derive(Debug, Clone)]
pub(crate) struct CallKeys {
    directory: PathBuf,
}

/// A signed call token.
#[derive(Debug)]
pub(crate) struct SignedCall {
    /// What the caller shows.
    pub token: String,
    /// The key that signed it.
    pub key: KeyId,
}

impl CallKeys {
    /// Keys in `directory`, which is made when the first key is.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Makes a key and lists it. The file comes first: a listed key without one would be of no use.
    pub(crate) async fn rotate(
        &self,
        catalog: &Catalog,
        actor: &Actor,
        leaked: bool,
    ) -> anyhow::Result<CallKeyRow> {
        let own: Vec<_> = self.own(catalog.call_keys().await?).iter().map(|key| key.id).collect();
        let before = if leaked { Before::Withdrawn } else { Before::RunOut(&own) };
        let key = PrivateKey::generate()?;
        let path = self.path(key.public().id());
        write_private(&self.directory, &path, key.to_pem()?.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
        match catalog.add_call_key(actor, &key.public(), before).await {
            Ok(made) => {
                self.forget_ended(catalog).await;
                Ok(made)
            }
            Err(error) => {
                // It never counted for anything.
                let _ = std::fs::remove_file(&path);
                Err(error.into())
            }
        }
    }

    /// Makes sure that there is a key to sign with, and for a while.
    pub(crate) async fn ensure(&self, catalog: &Catalog) -> anyhow::Result<()> {
        let lasts = Utc::now() + RENEW_BEFORE;
        let keys = self.own(catalog.call_keys().await?);
        if keys.iter().any(|key| key.not_after > lasts) {
            return Ok(());
        }
        let made = self.rotate(catalog, &Actor::program("mfaas-server"), false).await?;
        tracing::info!(key = %made.id, used_from = %made.used_from, "made a key for call tokens");
        Ok(())
    }

    /// Signs `claims` with the newest key that nodes know and that lasts as long as they do.
    pub(crate) async fn sign(&self, catalog: &Catalog, claims: &CallClaims) -> anyhow::Result<SignedCall> {
        self.ensure(catalog).await?;
        let keys = self.own(catalog.call_keys().await?);
        let usable = |key: &&CallKeyRow| fits(key, claims.expires_at, Utc::now());
        let key = keys.iter().find(usable).context("no key for call tokens is in use")?.id;
        let path = self.path(key);
        let pem = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let token = sign_call(claims, &PrivateKey::from_pem(&zeroize::Zeroizing::new(pem))?)?;
        Ok(SignedCall { token, key })
    }

    /// Those whose private half is here; another server of the site has its own.
    fn own(&self, listed: Vec<CallKeyRow>) -> Vec<CallKeyRow> {
        listed.into_iter().filter(|key| self.path(key.id).exists()).collect()
    }

    /// Removes files of keys that have ended.
    async fn forget_ended(&self, catalog: &Catalog) {
        let (Ok(listed), Ok(files)) = (catalog.call_keys().await, std::fs::read_dir(&self.directory)) else {
            return;
        };
        let kept: Vec<_> = listed.iter().map(|key| self.path(key.id)).collect();
        for path in files.flatten().map(|file| file.path()) {
            if path.extension().is_some_and(|ending| ending == "key") && !kept.contains(&path) {
                // What stays is of no use to anybody, and is tried again.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn path(&self, id: KeyId) -> PathBuf {
        self.directory.join(format!("{id}.key"))
    }
}

fn fits(key: &CallKeyRow, until: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    key.used_from <= now && until <= key.not_after
}

/// A file that only its owner reads, in a directory that only its owner opens, on the disk when this returns.
fn write_private(directory: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::File::open(directory)?.sync_all()
}
