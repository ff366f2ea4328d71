//! What the secondary sends through an interface: after everything else, and up to a bound.
//!
//! A program of BPF at the secondary's group of version 2 marks its packets, and the queueing discipline `htb` of the interface
//! holds marked packets back. All others take its direct queue, which has no bound and goes first. Whatever ends the controller
//! takes the mark away; the discipline has to be removed, so where it is installed is kept on the disk before it is.
//!
//! Must never replace a discipline that somebody has chosen, and never remove one that is not ours.

mod mark;
mod queue;

use std::io;
use std::path::Path;

use mfaas_isolation_client::Mechanism;

use crate::bpf::BpfError;
use crate::config::EgressConfig;
use crate::meters::note;
use crate::store::Store;
use mark::Mark;

/// What may fail at a start and when limits are lifted.
const LIFTING: &str = "lifting the bound of an interface";

/// All interfaces that the site has named.
#[derive(Debug)]
pub(crate) struct Egress {
    interfaces: Vec<Interface>,
    /// While packets are marked.
    mark: Option<Mark>,
}

/// An interface.
#[derive(Debug)]
struct Interface {
    config: EgressConfig,
    /// Why it is not shaped, though it should be.
    missing: Option<String>,
}

impl Egress {
    /// Removes what a life before has left; nothing is shaped yet.
    pub(crate) fn start(interfaces: &[EgressConfig], store: &Store) -> Self {
        note(LIFTING, remove(store));
        let interface = |config: &EgressConfig| Interface { config: config.clone(), missing: None };
        Self { interfaces: interfaces.iter().map(interface).collect(), mark: None }
    }

    /// Shapes what is named, unless it is shaped already. What cannot be is said, and everything else goes on.
    pub(crate) fn engage(&mut self, group: Result<&Path, &str>, store: &Store) {
        if self.mark.is_some() || self.interfaces.is_empty() {
            return;
        }
        let kept = self.keep(store).map_err(|error| error.to_string());
        let mark = kept.and_then(|()| group.map_err(ToOwned::to_owned)).and_then(|group| {
            Mark::set(group, queue::SECONDARY).map_err(|error| {
                format!("packets are not marked, which needs CAP_BPF and CAP_NET_ADMIN: {}", chain(&error))
            })
        });
        let unmarked = match mark {
            Ok(mark) => {
                self.mark = Some(mark);
                None
            }
            Err(why) => Some(why),
        };
        for Interface { config, missing } in &mut self.interfaces {
            *missing = unmarked.clone().or_else(|| queue::install(config).err());
            if let Some(why) = missing {
                tracing::warn!(interface = config.interface, why, "what the secondary sends is not shaped");
            }
        }
    }

    /// With what a life before has left and could not be removed.
    fn keep(&self, store: &Store) -> io::Result<()> {
        let mut names = store.egress()?;
        names.extend(self.interfaces.iter().map(|one| one.config.interface.clone()));
        names.sort();
        names.dedup();
        store.keep_egress(&names)
    }

    /// Shapes nothing any more.
    pub(crate) fn lift(&mut self, store: &Store) {
        self.mark = None;
        note(LIFTING, remove(store));
    }

    /// For people.
    pub(crate) fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        self.interfaces.iter().map(|Interface { config, missing }| {
            let by = format!(
                "BPF at the secondary's group and htb, at most {} bytes a second",
                config.bytes_per_s
            );
            let name = format!("egress of {}", config.interface);
            Mechanism { name, by: missing.is_none().then_some(by), missing: missing.clone() }
        })
    }
}

/// Removes every discipline that is ours; all are tried.
pub(crate) fn remove(store: &Store) -> io::Result<()> {
    let installed = store.egress()?;
    if installed.is_empty() {
        return Ok(());
    }
    let mut removed = Ok(());
    for interface in &installed {
        removed = removed.and(queue::remove(interface));
    }
    // Only then: what is forgotten is never removed.
    removed.and_then(|()| store.keep_egress(&[]))
}

/// An error with its causes, of which it says the first itself.
fn chain(error: &BpfError) -> String {
    let first = std::error::Error::source(error);
    let causes = std::iter::successors(first, |cause| cause.source()).skip(1);
    causes.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}
