//! The root whose signatures count for this installation: what the profile pins, followed through every key list that the
//! server has.
//!
//! The newest list is kept beside the profile, so a server that was believed once cannot show an older one afterwards. What
//! is kept is checked again, and belongs to the pin that led there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mfaas_attest::{RootError, TrustedRoot};
use mfaas_supervisor::write_atomically;

use crate::client::Client;
use crate::failure::Failure;
use crate::settings::Context;

/// Key lists that one command takes. What was reached is kept, so the next command goes on from there.
const LISTS_MAX: usize = 1_000;

/// The root after the newest key list of the server.
pub(crate) async fn trusted_root(context: &Context, client: &Client) -> Result<TrustedRoot, Failure> {
    let memory = Memory::of(context)?;
    let mut root = context.pinned_root()?;
    if let Some(kept) = memory.kept(&root) {
        root = root.resume(kept.as_bytes()).map_err(unverified)?;
    }
    for _ in 0..LISTS_MAX {
        let list = client.get_bytes(&format!("/v1/keys?after={}", root.version())).await?;
        // An empty answer is a 204. A server of the release before gives the newest list again and again.
        let next = if list.is_empty() { None } else { Some(root.follow(&list).map_err(unverified)?) };
        let Some(next) = next.filter(|next| next.version() > root.version()) else { return Ok(root) };
        memory.keep(&next, &list)?;
        root = next;
    }
    Err(Failure::Unverified(format!(
        "the server has more than {LISTS_MAX} key lists; {} were verified and are kept: run it again",
        root.version()
    )))
}

fn unverified(error: RootError) -> Failure {
    Failure::Unverified(error.to_string())
}

/// The newest key list of each pin, in a file beside the profile. Without a home directory nothing is remembered.
struct Memory {
    path: Option<PathBuf>,
    lists: BTreeMap<String, String>,
}

impl Memory {
    fn of(context: &Context) -> Result<Self, Failure> {
        let path = context.profile_path.as_ref().map(|path| path.with_file_name("key-lists.json"));
        let lists = match path.as_ref().map(|path| (path, std::fs::read(path))) {
            Some((path, Ok(bytes))) => serde_json::from_slice(&bytes).map_err(|error| {
                Failure::Local(format!("{} is damaged ({error}): remove it", path.display()))
            })?,
            Some((_, Err(error))) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Some((path, Err(error))) => return Err(Failure::io("cannot read", path)(error)),
            None => BTreeMap::new(),
        };
        Ok(Self { path, lists })
    }

    fn kept(&self, pinned: &TrustedRoot) -> Option<&String> {
        self.lists.get(&pinned.pin().to_string())
    }

    fn keep(&self, root: &TrustedRoot, list: &[u8]) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut lists = self.lists.clone();
        lists.insert(root.pin().to_string(), String::from_utf8_lossy(list).into_owned());
        let text = serde_json::to_vec(&lists).map_err(|error| Failure::Local(error.to_string()))?;
        Ok(write_atomically(path, &text, 0o600)?)
    }
}
