//! Which CPUs are threads of one physical core: a core that is lent out whole disturbs nobody on its other thread.

use crate::cores::{CORES_MAX, CoreSet};

/// The groups that share a physical core. A CPU of which nothing is known has its core for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Siblings {
    groups: Vec<CoreSet>,
    /// Index into `groups` plus one by CPU; 0 for those without siblings. Empty when nobody has any.
    group_of: Vec<u16>,
}

impl Siblings {
    /// From the lists of `/sys/devices/system/cpu/cpu*/topology/thread_siblings_list`. Each CPU may name its group
    /// again; one that two different groups claim belongs to the first.
    pub fn from_groups(groups: impl IntoIterator<Item = CoreSet>) -> Self {
        let mut siblings = Self { groups: Vec::new(), group_of: vec![0; CORES_MAX] };
        for group in groups {
            let free: CoreSet = siblings.groups.iter().fold(group, |rest, taken| rest.difference(taken));
            if free.len() < 2 {
                continue;
            }
            siblings.groups.push(free);
            for core in free.iter() {
                siblings.group_of[core] = siblings.groups.len() as u16;
            }
        }
        siblings
    }

    /// The CPUs of the core, itself among them.
    pub fn of(&self, core: usize) -> CoreSet {
        match self.group_of.get(core) {
            None | Some(0) => alone(core),
            Some(group) => self.groups[usize::from(*group) - 1],
        }
    }
}

fn alone(core: usize) -> CoreSet {
    let mut set = CoreSet::EMPTY;
    // A number beyond the table has no CPU and no sibling.
    let _ = set.insert(core);
    set
}

#[cfg(test)]
mod tests;
