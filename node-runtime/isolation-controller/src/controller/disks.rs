//! Disks that primary and secondary share: what each did is measured, and what the secondary may do is written.

use std::time::Duration;

use mfaas_ident::Moment;
use mfaas_isolation::{DiskGroup, DiskIsolation, DiskRate, DiskSettings, DiskUse, SettingError};
use mfaas_isolation_client::Disk;

use crate::config::DiskConfig;
use crate::groups::{DiskCounts, Groups};
use crate::machine;
use crate::meters::note;

/// How long a round is: the kernel's own throttling works in tenths of a second.
pub(super) const ROUND: Duration = Duration::from_secs(1);
/// Shares of the disk where both want all of it, and what each can always have, in percent.
const PRIMARY: Share = Share { weight: 900, minimum_percent: 50, is_primary: true };
const SECONDARY: Share = Share { weight: 100, minimum_percent: 5, is_primary: false };
/// The place of the secondary among the groups of a disk.
const OF_SECONDARY: usize = 1;
/// How much of a disk's time a deficit can be.
const DEFICIT_US_MAX: u64 = 2_000_000;

struct Share {
    weight: u32,
    minimum_percent: u64,
    is_primary: bool,
}

impl Share {
    fn of(&self, capacity: DiskRate) -> DiskGroup {
        let part = |most: u64| most / 100 * self.minimum_percent;
        let minimum = DiskRate { iops: part(capacity.iops), bytes_per_s: part(capacity.bytes_per_s) };
        DiskGroup { weight: self.weight, minimum, is_primary: self.is_primary }
    }
}

/// A disk that is watched.
#[derive(Debug)]
struct Watched {
    device: String,
    isolation: DiskIsolation,
    /// Counts at the look before: of the machine, and of the secondary.
    before: Option<(DiskCounts, DiskCounts)>,
    shown: Disk,
}

/// All that are watched: those whose capacity the site has said.
#[derive(Debug, Default)]
pub(super) struct DiskControl(Vec<Watched>);

impl DiskControl {
    /// Watches these.
    pub(super) fn start(disks: &[DiskConfig]) -> Result<Self, SettingError> {
        let watched = |disk: &DiskConfig| {
            let capacity = DiskRate { iops: disk.iops, bytes_per_s: disk.bytes_per_s };
            let groups = vec![PRIMARY.of(capacity), SECONDARY.of(capacity)];
            let isolation =
                DiskIsolation::new(DiskSettings { capacity, groups, deficit_us_max: DEFICIT_US_MAX })?;
            let shown = Disk { device: disk.device.clone(), ..Disk::default() };
            Ok(Watched { device: disk.device.clone(), isolation, before: None, shown })
        };
        disks.iter().map(watched).collect::<Result<_, _>>().map(Self)
    }

    /// Everything is lifted, and stays so.
    pub(super) fn lift(&mut self, groups: &Groups) {
        for disk in &mut self.0 {
            disk.isolation.lift();
            disk.before = None;
            disk.shown.bytes_per_second_max = None;
            note("lifting limits of a disk", groups.set_disk(&disk.device, None));
        }
    }

    /// Limits from the second look on.
    pub(super) fn engage(&mut self) {
        self.0.iter_mut().for_each(|disk| disk.isolation.engage());
    }

    /// One look, and what follows from it.
    pub(super) fn look(&mut self, now: Moment, groups: &Groups) {
        for disk in &mut self.0 {
            let counts = machine::disk(&disk.device).zip(groups.disk(&disk.device));
            let Some(after) = counts else {
                let missing = std::io::Error::other(format!("{} is not counted", disk.device));
                note("looking at a disk", Err(missing));
                continue;
            };
            if let Some(before) = disk.before.replace(after) {
                disk.decide(now, before, after, groups);
            }
        }
    }

    /// For people.
    pub(super) fn status(&self) -> Vec<Disk> {
        self.0.iter().map(|disk| disk.shown.clone()).collect()
    }
}

impl Watched {
    fn decide(
        &mut self,
        now: Moment,
        before: (DiskCounts, DiskCounts),
        after: (DiskCounts, DiskCounts),
        groups: &Groups,
    ) {
        let all = after.0.since(before.0);
        let secondary = after.1.since(before.1);
        // Whatever is not the secondary's is the primary's, the kernel's own among it.
        let uses = [all.since(secondary).as_use(), secondary.as_use()];
        self.shown.bytes_per_second = secondary.read_bytes.saturating_add(secondary.written_bytes);
        for (group, limit) in self.isolation.step(now, &uses) {
            if group == OF_SECONDARY {
                let most = limit.read_bytes_per_s.saturating_add(limit.write_bytes_per_s);
                self.shown.bytes_per_second_max = Some(most);
                note("limiting a disk", groups.set_disk(&self.device, Some(&limit)));
            }
        }
    }
}

impl DiskCounts {
    fn as_use(self) -> DiskUse {
        let Self { reads, writes, read_bytes, written_bytes } = self;
        DiskUse { reads, writes, read_bytes, written_bytes }
    }
}
