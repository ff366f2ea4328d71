//! What /proc says: who runs, since when, and what of ours is left.
//!
//! Only reads. A process may vanish between two reads, so every miss is "not there", not an error.

use std::collections::BTreeSet;
use std::path::Path;

/// The fields of `/proc/<pid>/stat` that we use (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Field 4.
    pub(crate) parent: i32,
    /// Whether the process has ended and only waits to be reaped (field 3 is `Z` or `X`).
    pub(crate) ended: bool,
    /// Whether it was stopped by a signal or a debugger (field 3 is `T` or `t`).
    pub(crate) stopped: bool,
    /// Field 22.
    pub(crate) start_ticks: u64,
}

/// Reads a stat line. The command name may hold anything, so fields count from its last `)`.
pub(crate) fn parse_stat(line: &str) -> Option<Stat> {
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // `fields[0]` is field 3.
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ended: matches!(*fields.first()?, "Z" | "X"),
        stopped: matches!(*fields.first()?, "T" | "t"),
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// The stat of a process; `None` when it is gone.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// When a living process started; `None` for one that is gone or only waits to be reaped.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    stat(pid).filter(|stat| !stat.ended).map(|stat| stat.start_ticks)
}

/// Every process that there is.
pub(crate) fn pids() -> Vec<i32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// All living descendants of `root`, without itself.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let all: Vec<(i32, i32)> = pids()
        .into_iter()
        .filter_map(|pid| stat(pid).filter(|s| !s.ended).map(|s| (pid, s.parent)))
        .collect();
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (pid, parent) in &all {
            if *parent == root || found.contains(parent) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return found.into_iter().collect();
        }
    }
}

/// Variables that people export in their shells, so that whatever they start has them; no program of an installation is
/// told by them where it lives.
const OF_PEOPLE: [&str; 4] = ["MFAAS_HOME", "MFAAS_PROFILE_FILE", "PWD", "OLDPWD"];

/// What is left of an installation, each as a sentence fragment: processes that name one of the
/// `places` in their environment or arguments or stand inside it, unix sockets and mounts below it.
pub(crate) fn leftovers(places: &[&Path]) -> Vec<String> {
    let mut left = Vec::new();
    let family = ancestors(rustix::process::getpid().as_raw_nonzero().get());
    for pid in pids().into_iter().filter(|pid| !family.contains(pid)) {
        if let Some(why) = belongs(pid, places) {
            left.push(format!("process {pid} ({}): {why}", name(pid)));
        }
    }
    left.extend(lines_naming("/proc/net/unix", places).map(|line| format!("socket {line}")));
    left.extend(lines_naming("/proc/self/mountinfo", places).map(|line| format!("mount {line}")));
    left
}

/// We and those who called us name the home in their arguments, too.
fn ancestors(pid: i32) -> BTreeSet<i32> {
    std::iter::successors(Some(pid), |pid| stat(*pid).map(|s| s.parent).filter(|parent| *parent > 0))
        .collect()
}

fn belongs(pid: i32, places: &[&Path]) -> Option<String> {
    if stat(pid)?.ended {
        return None;
    }
    let inside = |link: &str| {
        let target = std::fs::read_link(format!("/proc/{pid}/{link}")).ok()?;
        places
            .iter()
            .any(|place| target.starts_with(place))
            .then(|| format!("its {link} is {}", target.display()))
    };
    let names = |file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
        bytes.split(|byte| *byte == 0).find_map(|part| {
            let text = std::str::from_utf8(part).ok()?;
            let (variable, value) = text.split_once('=').unwrap_or(("", text));
            if OF_PEOPLE.contains(&variable) {
                return None;
            }
            places
                .iter()
                .any(|place| Path::new(value).starts_with(place))
                .then(|| format!("{file} has {text}"))
        })
    };
    // Arguments count only for our own programs: an editor may have a file of the home open.
    let ours = name(pid).starts_with("mfaas") || name(pid).starts_with("postgres");
    inside("root")
        .or_else(|| inside("cwd"))
        .or_else(|| names("environ"))
        .or_else(|| ours.then(|| names("cmdline")).flatten())
}

/// The short name of a process.
pub(crate) fn name(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
}

/// The lines of a /proc table with a field that is a path inside one of `places`.
fn lines_naming<'a>(table: &str, places: &'a [&Path]) -> impl Iterator<Item = String> + use<'a> {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    let lines: Vec<String> = text
        .lines()
        .filter_map(|line| {
            line.split_ascii_whitespace().find(|field| {
                field.starts_with('/') && places.iter().any(|place| Path::new(field).starts_with(place))
            })
        })
        .map(str::to_owned)
        .collect();
    lines.into_iter()
}

#[cfg(test)]
mod tests;
