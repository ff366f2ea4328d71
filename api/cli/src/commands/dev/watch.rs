//! When a file of a package changes.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use super::packages::Package;
use crate::failure::Failure;

/// Editors write a file in several steps: it counts as saved when nothing happened for so long.
const SETTLED_AFTER: Duration = Duration::from_millis(10);
/// Who writes all the time is not waited for longer.
const SETTLED_AFTER_MAX: Duration = Duration::from_millis(200);

/// What changes beside the sources without being one: an upload leaves it out.
const NO_SOURCES: [&str; 2] = ["target", ".git"];

/// The directories of the packages.
pub(super) struct Watch {
    /// Ends with the value.
    _watcher: RecommendedWatcher,
    changes: mpsc::Receiver<Instant>,
}

impl Watch {
    /// Begins to watch.
    pub(super) fn of(packages: &[Package]) -> Result<Self, Failure> {
        // One change in the channel stands for all that follow until it is taken.
        let (tell, changes) = mpsc::channel(1);
        let roots: Vec<PathBuf> = packages.iter().map(|package| package.path.clone()).collect();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Where the system lost track, everything may have changed.
            if event.map_or(true, |event| is_change(&roots, &event)) {
                let _ = tell.try_send(Instant::now());
            }
        })
        .map_err(|error| Failure::Local(format!("cannot watch for changes: {error}")))?;
        for package in packages {
            watcher.watch(&package.path, RecursiveMode::Recursive).map_err(|error| {
                Failure::Local(format!("cannot watch {}: {error}", package.path.display()))
            })?;
        }
        Ok(Self { _watcher: watcher, changes })
    }

    /// Waits for the next change, and until files are whole again; gives when it began.
    pub(super) async fn change(&mut self) -> Result<Instant, Failure> {
        let Some(began) = self.changes.recv().await else {
            return Err(Failure::Local("the packages are not watched any more".to_owned()));
        };
        loop {
            tokio::time::sleep(SETTLED_AFTER).await;
            if self.changes.try_recv().is_err() || began.elapsed() >= SETTLED_AFTER_MAX {
                return Ok(began);
            }
        }
    }
}

/// Whether an event may have changed what is uploaded. Reading changes nothing, and we read.
fn is_change(roots: &[PathBuf], event: &Event) -> bool {
    let is_source = |path: &PathBuf| {
        let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.and_then(first).is_none_or(|first| !NO_SOURCES.contains(&first))
    };
    !event.kind.is_access() && (event.paths.is_empty() || event.paths.iter().any(is_source))
}

fn first(path: &Path) -> Option<&str> {
    match path.components().next() {
        Some(Component::Normal(name)) => name.to_str(),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests;
