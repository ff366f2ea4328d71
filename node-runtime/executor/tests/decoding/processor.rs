//! The processor as judge: each trial runs one instruction in a process that can be thrown away, for one
//! step, at the very end of a page behind which the next cannot be fetched.
//!
//! All of it happens in a signal handler: the end of a trial is a signal, whose handler notes what the
//! kernel says, writes the next trial and returns into it with the trap flag set. The return is an
//! `iret`, so nothing is left of what the core had fetched. What the trials can reach lies below 4 GiB,
//! where the process has nothing but a room for them to write to.
//!
//! The handler must never use what belongs to a thread, allocate or call what may: a trial can have
//! changed any register, and another thread may have held any lock when the process was forked.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// First address of the page that cannot be read, written or fetched, in the middle of the low 4 GiB: an
/// operand relative to the next instruction stays in them.
pub(crate) const GUARD: u64 = 0x8000_0000;
/// Longest instruction that a processor knows, in bytes.
pub(crate) const INSTRUCTION_BYTES_MAX: usize = 15;
/// So many trials share a process.
const BATCH: usize = 1 << 15;
const PAGE_BYTES: usize = 4096;
/// The page at whose end the trials stand.
const CODE: usize = GUARD as usize - PAGE_BYTES;
/// What they may write.
const ROOM: usize = 0x4000_0000;
const ROOM_BYTES: usize = 1 << 20;
/// What the program must not have mapped there: from here to 6 GiB.
const LOWEST: usize = 64 << 10;
const CLEARED_END: usize = 6 << 30;
/// Stack of the handler, above the trials.
const HANDLER_STACK_BYTES: usize = 64 << 10;
/// The bit that is always set, interrupts, single steps.
const FLAGS: i64 = 0x302;
/// Code and stack segments of 64-bit programs on Linux; FS and GS none.
const SEGMENTS: i64 = 0x002b_0000_0000_0033;
/// What a program starts with: every exception is masked.
const X87_CONTROL: u16 = 0x37f;
const VECTOR_CONTROL: u32 = 0x1f80;
/// A process that says nothing for so long has a trial that does not end, in seconds.
const PATIENCE_SECONDS: u32 = 20;

/// An instruction and how much of it lies before the guard.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Trial {
    pub(crate) bytes: [u8; INSTRUCTION_BYTES_MAX + 1],
    pub(crate) on_page: usize,
    /// Whether `rcx` counts repetitions: one is left.
    pub(crate) repeats: bool,
}

impl Trial {
    /// Where it begins.
    pub(crate) fn start(&self) -> u64 {
        GUARD - self.on_page as u64
    }
}

/// How a trial ended, in the kernel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Ending {
    /// Number of the exception.
    pub(crate) trap: i64,
    /// Its error code.
    pub(crate) error: i64,
    /// Where the processor stands.
    pub(crate) at: u64,
    /// The address of the last page fault.
    pub(crate) address: u64,
    /// What stands on the top of the stack, if that is in the room.
    pub(crate) top: u64,
}

impl Ending {
    const NONE: Self = Self { trap: -1, error: 0, at: 0, address: 0, top: 0 };
    /// The process ended with the trial.
    pub(crate) const DIED: Self = Self { trap: -2, ..Self::NONE };
}

/// What parent and child share.
#[repr(C)]
struct Shared {
    /// The trial that runs, or will.
    next: usize,
    count: usize,
    /// Whether one has begun.
    begun: bool,
    trials: [Trial; BATCH],
    endings: [Ending; BATCH],
}

/// The page for trials, as it can be written, and the record that says which.
pub(crate) struct Processor {
    page: OwnedFd,
    writable: NonNull<u8>,
    shared: NonNull<Shared>,
    handler_stack: NonNull<u8>,
}

/// For the handler, in the child alone.
static WRITABLE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

fn map(at: usize, bytes: usize, access: c_int, flags: c_int, file: c_int) -> NonNull<u8> {
    // SAFETY: a new mapping; a fixed one is the child's, where nothing else is left.
    let mapped = unsafe { libc::mmap(ptr::without_provenance_mut(at), bytes, access, flags, file, 0) };
    assert_ne!(mapped, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    NonNull::new(mapped.cast()).expect("not at 0")
}

impl Processor {
    pub(crate) fn new() -> Self {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a text that ends.
        let descriptor = unsafe { libc::memfd_create(c"trials".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: just made, and nobody else's.
        let page = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: a descriptor and a number.
        assert_eq!(unsafe { libc::ftruncate(page.as_raw_fd(), PAGE_BYTES as libc::off_t) }, 0);
        let writable = map(0, PAGE_BYTES, access, libc::MAP_SHARED, page.as_raw_fd());
        let shared = map(0, size_of::<Shared>(), access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1).cast();
        let handler_stack = map(0, HANDLER_STACK_BYTES, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        Self { page, writable, shared, handler_stack }
    }

    /// How each trial ends.
    pub(crate) fn judge(&mut self, trials: &[Trial]) -> Vec<Ending> {
        trials.chunks(BATCH).flat_map(|batch| self.batch(batch)).collect()
    }

    fn batch(&mut self, trials: &[Trial]) -> Vec<Ending> {
        // SAFETY: mapped, zeros are a value of it, and no child runs.
        let shared = unsafe { self.shared.as_mut() };
        shared.trials[..trials.len()].copy_from_slice(trials);
        shared.endings[..trials.len()].fill(Ending::NONE);
        (shared.next, shared.count) = (0, trials.len());
        loop {
            self.child();
            // SAFETY: as above; the child has ended.
            let shared = unsafe { self.shared.as_mut() };
            if shared.next >= shared.count {
                return shared.endings[..trials.len()].to_vec();
            }
            shared.endings[shared.next] = Ending::DIED;
            shared.next += 1;
        }
    }

    /// Runs trials in a process of their own until none is left or one ends the process.
    fn child(&mut self) {
        // SAFETY: as above.
        unsafe { self.shared.as_mut() }.begun = false;
        // SAFETY: the child calls only what may be called after a fork of a program with threads.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => self.run(),
            child => {
                let mut status = 0;
                // SAFETY: our own child, and a live local.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            }
        }
    }

    /// The child: makes the low addresses the trials', and begins.
    fn run(&self) -> ! {
        WRITABLE.store(self.writable.as_ptr(), Ordering::Relaxed);
        SHARED.store(self.shared.as_ptr(), Ordering::Relaxed);
        // SAFETY: what the parent has there is not the child's.
        let cleared = unsafe { libc::munmap(ptr::without_provenance_mut(LOWEST), CLEARED_END - LOWEST) };
        assert_eq!(cleared, 0);
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        map(ROOM, ROOM_BYTES, libc::PROT_READ | libc::PROT_WRITE, anonymous, -1);
        let access = libc::PROT_READ | libc::PROT_EXEC;
        map(CODE, PAGE_BYTES, access, libc::MAP_SHARED | libc::MAP_FIXED, self.page.as_raw_fd());
        map(GUARD as usize, PAGE_BYTES, libc::PROT_NONE, anonymous, -1);
        let stack = libc::stack_t {
            ss_sp: self.handler_stack.as_ptr().cast(),
            ss_flags: 0,
            ss_size: HANDLER_STACK_BYTES,
        };
        // SAFETY: mapped as long as the process lives.
        assert_eq!(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) }, 0);
        for signal in [libc::SIGTRAP, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGBUS] {
            install(signal);
        }
        // SAFETY: takes a number; the signal ends the process, which the parent sees.
        unsafe { libc::alarm(PATIENCE_SECONDS) };
        // SAFETY: the handler does not come back here.
        unsafe { std::arch::asm!("ud2", options(noreturn)) }
    }
}

fn install(signal: c_int) {
    // SAFETY: plain data, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_end as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: a live local, and a handler that keeps to what one may do.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0);
    // SAFETY: zeros are an empty set.
    let mut signals: libc::sigset_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: a live local.
    unsafe { libc::sigaddset(&raw mut signals, signal) };
    // SAFETY: a live local.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, ptr::null_mut()) };
}

/// Notes how the trial ended and goes on with the next.
unsafe extern "C" fn on_end(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the parent's record, which this process alone uses now.
    let shared = unsafe { &mut *SHARED.load(Ordering::Relaxed) };
    // SAFETY: the kernel's record, which lives as long as the handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if shared.begun {
        shared.endings[shared.next] = ending(&context.uc_mcontext.gregs);
        shared.next += 1;
    }
    shared.begun = true;
    if shared.next >= shared.count {
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(0) }
    }
    ready(&shared.trials[shared.next], context);
}

fn ending(registers: &[i64; 23]) -> Ending {
    let of = |register: c_int| registers[register as usize];
    let top = of(libc::REG_RSP) as usize;
    let in_room = (ROOM..ROOM + ROOM_BYTES - 8).contains(&top);
    // SAFETY: in the room, which is mapped; any address will do.
    let top = if in_room { unsafe { ptr::without_provenance::<u64>(top).read_unaligned() } } else { 0 };
    Ending {
        trap: of(libc::REG_TRAPNO),
        error: of(libc::REG_ERR),
        at: of(libc::REG_RIP) as u64,
        address: of(libc::REG_CR2) as u64,
        top,
    }
}

/// Puts a trial in its place, and every register at its own place of the room.
fn ready(trial: &Trial, context: &mut libc::ucontext_t) {
    const GENERAL: [c_int; 15] = [
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RBP,
        libc::REG_RBX,
        libc::REG_RDX,
        libc::REG_RAX,
        libc::REG_RCX,
    ];
    let place = WRITABLE.load(Ordering::Relaxed).wrapping_add(PAGE_BYTES - trial.on_page);
    // SAFETY: the end of the page, of which no trial has more.
    unsafe { place.copy_from_nonoverlapping(trial.bytes.as_ptr(), trial.on_page) };
    let registers = &mut context.uc_mcontext.gregs;
    for (number, register) in GENERAL.into_iter().enumerate() {
        registers[register as usize] = (ROOM + ROOM_BYTES / 2 + number * 1024) as i64;
    }
    if trial.repeats {
        registers[libc::REG_RCX as usize] = 1;
    }
    let stack = ROOM + ROOM_BYTES / 4;
    // SAFETY: in the room.
    unsafe { ptr::without_provenance_mut::<u64>(stack).write(0) };
    registers[libc::REG_RSP as usize] = stack as i64;
    registers[libc::REG_RIP as usize] = trial.start() as i64;
    registers[libc::REG_EFL as usize] = FLAGS;
    registers[libc::REG_CSGSFS as usize] = SEGMENTS;
    // SAFETY: the kernel's record of vector registers, which it keeps behind the other.
    let vectors = unsafe { &mut *context.uc_mcontext.fpregs };
    (vectors.cwd, vectors.swd, vectors.mxcsr) = (X87_CONTROL, 0, VECTOR_CONTROL);
}
