//! What a server says of itself, and whether data may be kept there.

use std::collections::HashMap;

/// Older ones do not refuse a script as a whole where memory is full.
const MAJOR_MIN: u32 = 7;

/// What a server says of itself.
#[derive(Debug)]
pub(crate) struct Facts<'a>(HashMap<&'a str, &'a str>);

impl<'a> Facts<'a> {
    /// Of the answer to `INFO`.
    pub(crate) fn read(info: &'a str) -> Self {
        Self(info.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    fn fact(&self, name: &str) -> &str {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Whether data may be kept there; else a sentence that goes on after "the server".
    pub(crate) fn check(&self) -> Result<(), String> {
        let version = self.fact("redis_version");
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or_default();
        if major < MAJOR_MIN {
            return Err(format!(
                "has version {version:?}: data of functions needs Redis 7 or Valkey, or later"
            ));
        }
        if self.fact("role") != "master" {
            return Err(format!("is a {:?}, which takes no writes: name the primary", self.fact("role")));
        }
        if self.fact("cluster_enabled") != "0" {
            return Err("is one of a cluster: name a single server, with cluster-enabled no".to_owned());
        }
        let policy = self.fact("maxmemory_policy");
        if policy != "noeviction" {
            return Err(format!(
                "would throw data away where memory is full: its maxmemory-policy is {policy:?}; \
                 set it to noeviction, in its configuration file and with CONFIG SET"
            ));
        }
        Ok(())
    }

    /// Whether it loses everything when it ends.
    pub(crate) fn keeps_no_log(&self) -> bool {
        self.fact("aof_enabled") == "0"
    }
}

#[cfg(test)]
mod tests;
