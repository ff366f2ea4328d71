//! What each core runs at this moment: fourteen instructions at the scheduler's tracepoint `sched_switch` note in an array, by core,
//! the process that comes next. Reading it is one system call a core.

use std::io;

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::TracePoint;
use mfaas_isolation::CoreSet;
use object::write::Relocation;
use object::{RelocationFlags, SectionKind, SymbolKind, elf};

use crate::bpf::{self, BpfError, INSTRUCTION, instruction};

/// The kernel's process of an idle core.
const IDLE: u32 = 0;
/// The array: by core, the process on it.
const RUNNING: &str = "RUNNING";
/// The program.
const SWITCHED: &str = "switched";
/// Where the tracepoint's record has the process that comes next.
const NEXT_PID_AT: i16 = 56;
/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// Helpers of the kernel.
const MAP_LOOKUP: i32 = 1;
const THIS_CORE: i32 = 8;
/// Which instruction takes the array's address.
const TAKES_ARRAY: u64 = 4;

/// The array, while the program is attached.
pub(crate) struct Running {
    array: Array<MapData, u32>,
    /// Detaches the program when it is dropped.
    _program: Ebpf,
    /// This thread's own id: what looks is not what is looked for.
    own: u32,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Running {
    /// Watches these cores from now on. Called by the thread that will look.
    pub(crate) fn watch(cores: &CoreSet) -> Result<Self, BpfError> {
        let entries = cores.iter().max().map_or(1, |last| last as u32 + 1);
        let mut loaded = Ebpf::load(&object_file(entries)?)?;
        let program: &mut TracePoint =
            loaded.program_mut(SWITCHED).ok_or(BpfError::Missing(SWITCHED))?.try_into()?;
        program.load()?;
        program.attach("sched", "sched_switch")?;
        let map = loaded.take_map(RUNNING).ok_or(BpfError::Missing(RUNNING))?;
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        Ok(Self { array: Array::try_from(map)?, _program: loaded, own })
    }

    /// Those of `cores` that run nothing. A core that has not switched since the start counts as idle: it does so with its
    /// next timer tick.
    pub(super) fn idle(&self, cores: &CoreSet) -> io::Result<CoreSet> {
        let mut idle = CoreSet::EMPTY;
        for core in cores.iter() {
            let running = self.array.get(&(core as u32), 0).map_err(io::Error::other)?;
            if running == IDLE || running == self.own {
                idle.insert(core).map_err(io::Error::other)?;
            }
        }
        Ok(idle)
    }
}

/// `array[this core] = record.next_pid`.
const PROGRAM: [[u8; INSTRUCTION]; 14] = {
    const LOAD: u8 = 0x61;
    const STORE: u8 = 0x63;
    const CALL: u8 = 0x85;
    const ADDRESS: u8 = 0x18;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const SKIP_IF: u8 = 0x15;
    const EXIT: u8 = 0x95;
    const STACK: u8 = 10;
    [
        instruction(LOAD, 2, 1, NEXT_PID_AT, 0),
        instruction(STORE, STACK, 2, -8, 0),
        instruction(CALL, 0, 0, 0, THIS_CORE),
        instruction(STORE, STACK, 0, -4, 0),
        instruction(ADDRESS, 1, 0, 0, 0),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 2, STACK, 0, 0),
        instruction(ADD, 2, 0, 0, -4),
        instruction(CALL, 0, 0, 0, MAP_LOOKUP),
        instruction(SKIP_IF, 0, 0, 2, 0),
        instruction(LOAD, 1, STACK, -8, 0),
        instruction(STORE, 0, 1, 0, 0),
        instruction(SET, 0, 0, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]
};

/// The program and its array, as an ELF object.
fn object_file(entries: u32) -> Result<Vec<u8>, object::write::Error> {
    let mut file = bpf::object();
    let text = bpf::add_program(&mut file, "tracepoint/sched/sched_switch", SWITCHED, &PROGRAM);
    let maps = file.add_section(Vec::new(), b"maps".to_vec(), SectionKind::Data);
    let array: Vec<u8> = [ARRAY, 4, 4, entries, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    file.append_section_data(maps, &array, 4);
    let running = file.add_symbol(bpf::symbol(RUNNING, maps, array.len(), SymbolKind::Data));
    let flags = RelocationFlags::Elf { r_type: elf::R_BPF_64_64 };
    let offset = TAKES_ARRAY * INSTRUCTION as u64;
    file.add_relocation(text, Relocation { offset, symbol: running, addend: 0, flags })?;
    file.write()
}
