//! Four instructions that the kernel runs for every packet of the secondary: they write its priority, by which `htb` finds its class.
//! They see the packet of any socket that a member has made since it was placed, whatever priority the socket has.

use std::fs::File;
use std::path::Path;

use aya::Ebpf;
use aya::programs::{CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, ProgramError};

use crate::bpf::{self, BpfError, INSTRUCTION, instruction};

/// The program.
const MARKED: &str = "marked";
/// Where a packet has its priority, as programs see it.
const PRIORITY_AT: i16 = 32;

/// Packets are marked as long as this lives. The kernel detaches the program with the process that has it.
pub(super) struct Mark {
    _program: Ebpf,
}

impl std::fmt::Debug for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mark")
    }
}

impl Mark {
    /// Marks what the members of a group, and of those below it, send from now on.
    pub(super) fn set(group: &Path, priority: u32) -> Result<Self, BpfError> {
        let mut file = bpf::object();
        bpf::add_program(&mut file, "cgroup_skb/egress", MARKED, &program(priority));
        let mut loaded = Ebpf::load(&file.write()?)?;
        let program: &mut CgroupSkb =
            loaded.program_mut(MARKED).ok_or(BpfError::Missing(MARKED))?.try_into()?;
        program.load()?;
        let group = File::open(group).map_err(ProgramError::IOError)?;
        // A link is beside those of other programs, for example of systemd, and takes no word of it.
        program.attach(group, CgroupSkbAttachType::Egress, CgroupAttachMode::Single)?;
        Ok(Self { _program: loaded })
    }
}

/// `packet.priority = priority; let it pass`.
fn program(priority: u32) -> [[u8; INSTRUCTION]; 4] {
    const SET: u8 = 0xb7;
    const STORE: u8 = 0x63;
    const EXIT: u8 = 0x95;
    [
        instruction(SET, 2, 0, 0, priority.cast_signed()),
        instruction(STORE, 1, 2, PRIORITY_AT, 0),
        instruction(SET, 0, 0, 0, 1),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}
