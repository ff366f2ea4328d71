//! What outlives the controller: the kill switch, settings that were changed by command, who was placed, and
//! which interfaces are shaped. Each is a file that
//! is replaced by a rename, so that whoever reads sees the one before or the one after.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mfaas_isolation_client::Change;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::members::Record;

/// Its presence is the kill switch: anybody who may write the directory can pull it, without us.
const OFF: &str = "off";
const SETTINGS: &str = "settings.json";
const MEMBERS: &str = "members.json";
const EGRESS: &str = "egress.json";

/// The directory of these files.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Of a directory, which is made.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory).map_err(|error| named(directory, &error))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Whether the kill switch is pulled. One that cannot be looked at is: to limit nothing harms nobody.
    pub(crate) fn is_off(&self) -> bool {
        self.directory.join(OFF).try_exists().unwrap_or(true)
    }

    /// Pulls the kill switch, or puts it back.
    pub(crate) fn set_off(&self, off: bool) -> io::Result<()> {
        let path = self.directory.join(OFF);
        let done = if off { fs::write(&path, "") } else { fs::remove_file(&path) };
        match done {
            Err(error) if off || error.kind() != io::ErrorKind::NotFound => Err(named(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Settings that were changed by command.
    pub(crate) fn settings(&self) -> io::Result<Change> {
        self.read(SETTINGS)
    }

    /// Keeps them.
    pub(crate) fn keep_settings(&self, change: &Change) -> io::Result<()> {
        self.write(SETTINGS, change)
    }

    /// Who was placed.
    pub(crate) fn members(&self) -> io::Result<Vec<Record>> {
        self.read(MEMBERS)
    }

    /// Keeps who is placed.
    pub(crate) fn keep_members(&self, records: &[Record]) -> io::Result<()> {
        self.write(MEMBERS, &records)
    }

    /// Interfaces whose queueing discipline may be ours.
    pub(crate) fn egress(&self) -> io::Result<Vec<String>> {
        self.read(EGRESS)
    }

    /// Keeps them.
    pub(crate) fn keep_egress(&self, interfaces: &[String]) -> io::Result<()> {
        self.write(EGRESS, &interfaces)
    }

    fn read<T: DeserializeOwned + Default>(&self, name: &str) -> io::Result<T> {
        let path = self.directory.join(name);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| named(&path, &error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(error) => Err(named(&path, &error)),
        }
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let path = self.directory.join(name);
        let partial = path.with_extension("partial");
        let write = || {
            let mut file = fs::File::create(&partial)?;
            file.write_all(&serde_json::to_vec(value)?)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|error| named(&path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
