//! What is counted, and for how long anything is waited.

use std::time::Duration;

/// What a file or a directory counts for beside its bytes.
pub const ENTRY_BYTES: u64 = 4_096;
/// Operations at a time, of all volumes and of one: so that one that hangs leaves room for others.
pub const OPERATIONS_MAX: usize = 64;
/// Of one.
pub const VOLUME_OPERATIONS_MAX: usize = 8;
/// An operation ends within this time, or the server or disk is not there.
pub const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What a volume holds is counted within this time, or is not known.
pub(crate) const COUNTED_MAX: Duration = Duration::from_secs(600);
/// Says in the root that volumes lie here. No volume has such a name.
pub(crate) const MARK: &str = ".mfaas-volumes";
