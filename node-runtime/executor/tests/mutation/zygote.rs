//! Processes that run mutants: one for each image that has the window and the block and nothing else, and
//! forks one for each mutant.
//!
//! The filter of system calls knows one thing: whether the instruction lies in the block. So nothing that a
//! mutant executes itself can do anything to the machine, verified or not.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::base::Base;
use crate::block::{BASES, BLOCK_BYTES, PAGE_BYTES, Report, STACK_BYTES, Setting, Start, block};
use crate::window::{
    ARENA, ARENA_BYTES, BANK, CODE, CONSTANTS, DATA, GUARD_END, RECORD_PAGE, STACK, STACK_END,
};

/// Offsets in the memory that is shared: code, constants, the report, the call's record.
const SHARED_CONSTANTS: usize = BANK;
const REPORT: usize = 2 * BANK;
const RECORD: usize = REPORT + PAGE_BYTES;
const SHARED_BYTES: usize = RECORD + PAGE_BYTES;
/// Below this the kernel maps nothing for programs.
const LOWEST: usize = 64 << 10;
/// One past the addresses of programs.
const ADDRESSES_END: usize = 0x7fff_ffff_f000;
/// The signals that a run can end by.
const SIGNALS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGALRM];

/// One run.
pub(crate) struct Run<'a> {
    /// Changed bundles: where they lie in the bank, and their bytes.
    pub(crate) changes: &'a [(usize, Vec<u8>)],
    /// The page of the call's record.
    pub(crate) record: &'a [u8],
    pub(crate) start: Start,
    /// How long the run may go on after its own timer has struck, in milliseconds.
    pub(crate) patience_ms: i32,
}

/// What became of a run.
pub(crate) struct Ended {
    pub(crate) report: Report,
    /// The timer did not end it.
    pub(crate) unstoppable: bool,
}

/// The process that forks, as this program sees it.
pub(crate) struct Zygote {
    shared: NonNull<u8>,
    process: libc::pid_t,
    commands: OwnedFd,
    answers: OwnedFd,
    pub(crate) block: usize,
}

impl Zygote {
    /// Starts one for an image. Only while this program has one thread.
    pub(crate) fn start(base: &Base) -> Self {
        let memory = memory(SHARED_BYTES);
        let (their_commands, commands) = rustix::pipe::pipe().expect("a pipe");
        let (answers, their_answers) = rustix::pipe::pipe().expect("a pipe");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let shared = map(None, SHARED_BYTES, access, Some((&memory, 0)));
        let block = somewhere();
        // SAFETY: one thread; the child calls nothing that a lock of this program could stop.
        let process = unsafe { libc::fork() };
        assert!(process >= 0, "fork");
        if process == 0 {
            let setting = setting(block, &their_commands, &their_answers);
            drop((commands, answers));
            live(base, &memory, shared, block, setting);
        }
        let zygote = Self { shared, process, commands, answers, block };
        zygote.write(0, &base.code);
        zygote.write(SHARED_CONSTANTS, &base.constants);
        zygote
    }

    /// The process's mappings, as the kernel lists them, once it waits for its first command.
    pub(crate) fn maps(&self) -> String {
        let name = format!("/proc/{}/maps", self.process);
        let waits = |text: &String| !text.lines().any(|line| line.ends_with("[stack]"));
        (0..10_000)
            .map(|_| std::thread::sleep(std::time::Duration::from_millis(1)))
            .map(|()| std::fs::read_to_string(&name).expect("it lives"))
            .find(waits)
            .expect("it unmaps its stack")
    }

    /// Runs a mutant in a process of its own.
    pub(crate) fn run(&mut self, base: &Base, run: &Run<'_>) -> Ended {
        for (place, bytes) in run.changes {
            self.write(*place, bytes);
        }
        self.write(RECORD, run.record);
        let report = self.read();
        self.replace(Report { kind: 0, services: 0, process: 0, start: run.start, ..report });
        rustix::io::write(&self.commands, b"!").expect("it lives");
        let unstoppable = !self.answered(run.patience_ms);
        if unstoppable {
            let process = self.read().process as libc::pid_t;
            assert!(process > 0, "the process that forks is stuck");
            // SAFETY: takes numbers; its parent has not waited for it, so the number is still that process's.
            let _ = unsafe { libc::kill(process, libc::SIGKILL) };
            assert!(self.answered(60_000), "the process that forks is gone");
        }
        let mut byte = [0];
        assert_eq!(rustix::io::read(&self.answers, &mut byte), Ok(1), "the process that forks is gone");
        for (place, bytes) in run.changes {
            self.write(*place, &base.code[*place..*place + bytes.len()]);
        }
        Ended { report: self.read(), unstoppable }
    }

    fn answered(&self, milliseconds: i32) -> bool {
        let mut wait = libc::pollfd { fd: self.answers.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live record.
        let count = unsafe { libc::poll(&raw mut wait, 1, milliseconds) };
        count == 1
    }

    fn read(&self) -> Report {
        let report: *const Report = report_in(self.shared);
        // SAFETY: the shared page, in which any bytes are a report.
        unsafe { report.read_volatile() }
    }

    fn replace(&self, with: Report) {
        // SAFETY: the shared page, which nobody else uses between two runs.
        unsafe { report_in(self.shared).write_volatile(with) }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= SHARED_BYTES);
        let to = self.shared.as_ptr().wrapping_add(offset);
        // SAFETY: inside the shared memory, which nobody reads meanwhile.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // SAFETY: our own child, by its number, which is its until it was waited for.
        let _ = unsafe { libc::kill(self.process, libc::SIGKILL) };
        // SAFETY: null asks for nothing back.
        let _ = unsafe { libc::waitpid(self.process, ptr::null_mut(), 0) };
        // SAFETY: our own mapping.
        let _ = unsafe { libc::munmap(self.shared.as_ptr().cast(), SHARED_BYTES) };
    }
}

fn report_in(shared: NonNull<u8>) -> *mut Report {
    shared.as_ptr().wrapping_add(REPORT).cast()
}

/// Where the block lies: above all values that runs begin with, and nowhere twice.
fn somewhere() -> usize {
    let mut random = [0; 8];
    // SAFETY: eight bytes of a live local.
    let count = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    assert_eq!(count, 8, "random bytes");
    let page = usize::from_le_bytes(random) % ((0x7e00_0000_0000 - 0x5800_0000_0000) / PAGE_BYTES);
    0x5800_0000_0000 + page * PAGE_BYTES
}

fn setting(block: usize, commands: &OwnedFd, answers: &OwnedFd) -> Setting {
    /// `HWCAP2_FSGSBASE` of the kernel's headers: processor and kernel have the instructions.
    const FSGSBASE: libc::c_ulong = 2;
    // SAFETY: takes a number; answers 0 for what it does not know.
    let has_bases = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    let mut ends = [0; 256];
    for (number, row) in mfaas_rules::profiles::imports::ROWS.iter().enumerate() {
        let is_end = ["mfaas_host_panic", "mfaas_host_oom", "abort"].contains(&row.symbol)
            || row.symbol.starts_with("_Unwind");
        ends[number] = u8::from(is_end);
    }
    let end = block + BLOCK_BYTES;
    Setting {
        has_bases: has_bases.into(),
        commands: commands.as_raw_fd() as u32,
        answers: answers.as_raw_fd() as u32,
        bases: BASES as u64,
        below: [GUARD_END, block as u64 - GUARD_END],
        above: [end as u64, (ADDRESSES_END - end) as u64],
        ends,
    }
}

/// The life of the process that forks: it makes the window and the block, and never comes back.
fn live(base: &Base, memory: &OwnedFd, shared: NonNull<u8>, block_at: usize, setting: Setting) -> ! {
    // SAFETY: takes numbers: it ends with the program.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live record.
    let _ = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    let block = block();
    make_window(base, memory, block_at + block.landing);
    let writable = ProtFlags::READ | ProtFlags::WRITE;
    fill(block_at, PAGE_BYTES, &[(0, block.code)], MprotectFlags::READ | MprotectFlags::EXEC);
    map(Some(block_at + PAGE_BYTES), PAGE_BYTES, writable, Some((memory, REPORT)));
    map(Some(block_at + 2 * PAGE_BYTES), STACK_BYTES, writable, None);
    // SAFETY: the shared page, which nobody else uses yet; zeros are a report.
    let report = unsafe { report_in(shared).read_volatile() };
    // SAFETY: as above.
    unsafe { report_in(shared).write_volatile(Report { setting, ..report }) };
    handle_signals(block_at + block.handler, block_at + 2 * PAGE_BYTES);
    filter_calls(block_at);
    // SAFETY: the block's entry, at the address that it was copied to, which takes nothing.
    let zygote: extern "C" fn() -> ! =
        unsafe { std::mem::transmute(ptr::with_exposed_provenance::<()>(block_at + block.zygote)) };
    zygote()
}

/// The window as a worker has it, and no access up to 6 GiB.
fn make_window(base: &Base, memory: &OwnedFd, landing: usize) {
    let (read, none) = (ProtFlags::READ, ProtFlags::empty());
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    map(Some(CODE), BANK, read | ProtFlags::EXEC, Some((memory, 0)));
    let target = landing.to_le_bytes();
    fill(DATA, PAGE_BYTES, &[(0, &target)], MprotectFlags::READ);
    let rest = DATA + PAGE_BYTES;
    let data: Vec<(usize, &[u8])> = base
        .data
        .iter()
        .filter(|(_, bytes)| !bytes.is_empty())
        .map(|(at, bytes)| (at - rest, &bytes[..]))
        .collect();
    fill(rest, BANK - PAGE_BYTES, &data, writable);
    map(Some(CONSTANTS), BANK, read, Some((memory, SHARED_CONSTANTS)));
    map(Some(RECORD_PAGE), PAGE_BYTES, read | ProtFlags::WRITE, Some((memory, RECORD)));
    fill(ARENA, ARENA_BYTES, &[], writable);
    // A page of a stack is nearly always written: not once in each process.
    fill(STACK, STACK_END - STACK, &[(STACK_END - STACK - PAGE_BYTES, &[0; PAGE_BYTES])], writable);
    let parts = [
        CODE..CODE + BANK,
        DATA..DATA + BANK,
        CONSTANTS..CONSTANTS + BANK,
        RECORD_PAGE..RECORD_PAGE + PAGE_BYTES,
        ARENA..ARENA + ARENA_BYTES,
        STACK..STACK_END,
    ];
    let starts = std::iter::once(LOWEST).chain(parts.iter().map(|part| part.end));
    let ends = parts.iter().map(|part| part.start).chain([GUARD_END as usize]);
    for (start, end) in starts.zip(ends) {
        map(Some(start), end - start, none, None);
    }
}

/// Private memory with these bytes at these offsets.
fn fill(at: usize, bytes: usize, contents: &[(usize, &[u8])], access: MprotectFlags) {
    let start = map(Some(at), bytes, ProtFlags::READ | ProtFlags::WRITE, None);
    for (offset, content) in contents {
        assert!(offset + content.len() <= bytes);
        let to = start.as_ptr().wrapping_add(*offset);
        // SAFETY: inside the mapping that was just made.
        unsafe { ptr::copy_nonoverlapping(content.as_ptr(), to, content.len()) };
    }
    // SAFETY: the mapping that was just made.
    unsafe { rustix::mm::mprotect(start.as_ptr().cast(), bytes, access) }.expect("its rights");
}

fn map(at: Option<usize>, bytes: usize, access: ProtFlags, file: Option<(&OwnedFd, usize)>) -> NonNull<u8> {
    let placed = if at.is_some() { MapFlags::FIXED_NOREPLACE } else { MapFlags::empty() };
    let hint = ptr::without_provenance_mut(at.unwrap_or(0));
    let start = match file {
        // SAFETY: a new mapping that replaces nothing.
        Some((file, offset)) => unsafe {
            rustix::mm::mmap(hint, bytes, access, MapFlags::SHARED | placed, file, offset as u64)
        },
        // SAFETY: as above.
        None => unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | placed;
            rustix::mm::mmap_anonymous(hint, bytes, access, flags)
        },
    };
    let start: NonNull<u8> = NonNull::new(start.expect("the addresses are free").cast()).expect("not at 0");
    assert!(at.is_none_or(|at| at == start.as_ptr().expose_provenance()), "the addresses are taken");
    start
}

/// Memory that processes share.
fn memory(bytes: usize) -> OwnedFd {
    let memory = rustix::fs::memfd_create("mutation", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
    rustix::fs::ftruncate(&memory, bytes as u64).expect("its size");
    memory
}

/// Every signal ends the process in the block's handler, on the block's stack.
fn handle_signals(handler: usize, stack: usize) {
    let stack =
        libc::stack_t { ss_sp: ptr::with_exposed_provenance_mut(stack), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: mapped as long as the process lives; null asks for nothing back.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) }, 0, "sigaltstack");
    for signal in SIGNALS {
        // SAFETY: plain data, for which zeros are a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: a live local.
        let _ = unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: a live local; the handler ends the process.
        assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0, "sigaction");
    }
    // SAFETY: plain data, for which zeros are a value: no signal is blocked.
    let open: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a live local; null asks for nothing back.
    let _ = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const open, ptr::null_mut()) };
}

/// From now on a system call is made by the block's page of instructions or raises SIGSYS.
fn filter_calls(block: usize) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// `AUDIT_ARCH_X86_64` of the kernel's headers, and offsets in its `seccomp_data`.
    const X86_64: u32 = 0xc000_003e;
    const ARCHITECTURE: u32 = 4;
    const ADDRESS: u32 = 8;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let (low, high) = (block as u32, (block >> 32) as u32);
    let mut steps = [
        step(LOAD, ARCHITECTURE, 0, 0),
        step(EQUAL, X86_64, 0, 6),
        step(LOAD, ADDRESS + 4, 0, 0),
        step(EQUAL, high, 0, 4),
        step(LOAD, ADDRESS, 0, 0),
        step(AT_LEAST, low, 0, 2),
        step(AT_LEAST, low + PAGE_BYTES as u32, 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(ANSWER, libc::SECCOMP_RET_TRAP, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0, "no new privileges");
    // SAFETY: a live program of a few steps.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(done, 0, "the filter");
}
