//! Signal handlers: they decide whether the running call must end, and end it.
//!
//! A handler ends a call only while the interrupted stack pointer lies in the window, where the host's
//! never does, or when a service, which owns nothing, faulted at an address of the window. Then resuming at
//! the landing loses nothing. A fault anywhere else is a fault of the worker itself, whose
//! memory can no longer be trusted: the process ends.
//!
//! Handlers run on a stack of their own, one at a time, and call only what a handler may call. They may
//! begin with the function's base of FS, so nothing in them may use what belongs to a thread.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rustix::mm::MprotectFlags;

use crate::ExecutorError;
use crate::gate;
use crate::memory::{PAGE_BYTES, Region};
use crate::state::{self, End, State};
use crate::window;

/// The signal of whoever watches budgets.
pub const TICK_SIGNAL: c_int = libc::SIGALRM;
/// What code can raise by running.
const FAULT_SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
/// Nothing but the bit that is always set and the enabled interrupts.
const FLAGS_AT_REST: usize = 0x202;
/// Room for a signal frame with every vector register of AVX-512 and AMX, several times.
const HANDLER_STACK_BYTES: usize = 64 << 10;
/// What the handlers themselves may use of it below the kernel's frame.
const HANDLER_BYTES: usize = 8 << 10;
/// Where it lies between its two guard pages.
const HANDLER_STACK: Range<usize> = PAGE_BYTES..PAGE_BYTES + HANDLER_STACK_BYTES;

/// The stack for handlers on this thread; gives the former one back when it goes.
#[derive(Debug)]
pub(crate) struct HandlerStack {
    region: Region,
    former: libc::stack_t,
    used_bytes: usize,
}

impl HandlerStack {
    pub(crate) fn install() -> Result<Self, ExecutorError> {
        let region = Region::reserve(None, HANDLER_STACK.end + PAGE_BYTES)?;
        region.protect(HANDLER_STACK, MprotectFlags::READ | MprotectFlags::WRITE)?;
        let stack = libc::stack_t {
            ss_sp: region.at(HANDLER_STACK.start).cast(),
            ss_flags: 0,
            ss_size: HANDLER_STACK_BYTES,
        };
        let mut former = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: INV-EXECUTOR-7. The memory is mapped until `Drop` puts the former stack back.
        if unsafe { libc::sigaltstack(&raw const stack, former.as_mut_ptr()) } != 0 {
            return Err(ExecutorError::last("set the handlers' stack"));
        }
        // SAFETY: INV-EXECUTOR-7. Filled by the call, and zeros are a value of it anyway.
        let former = unsafe { former.assume_init() };
        Ok(Self { region, former, used_bytes: frame_bytes() + HANDLER_BYTES })
    }

    /// Where it lies.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.region.address() + HANDLER_STACK.start..self.region.address() + HANDLER_STACK.end
    }

    /// Makes zeros of what a handler can have used: the kernel's frame, whose size the kernel says,
    /// and the handler's own below it. Not for use in a handler.
    pub(crate) fn wipe(&self) {
        self.region.zero(HANDLER_STACK.end - self.used_bytes..HANDLER_STACK.end);
    }
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        // SAFETY: INV-EXECUTOR-7. What was in force before. It fails only on the handlers' stack itself.
        let _ = unsafe { libc::sigaltstack(&raw const self.former, std::ptr::null_mut()) };
    }
}

/// Bytes of the kernel's signal frame on this machine, at most.
fn frame_bytes() -> usize {
    /// `AT_MINSIGSTKSZ` of the kernel's headers.
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    /// Before the kernel said it, no frame was larger than this.
    const UNSAID: usize = 4 << 10;
    // SAFETY: INV-EXECUTOR-7. Takes a number; answers 0 for what it does not know.
    let said = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    usize::try_from(said).unwrap_or(0).clamp(UNSAID, HANDLER_STACK_BYTES - HANDLER_BYTES)
}

/// Puts those in the handlers' place that take the host's rights first: the kernel begins a handler
/// with rights of its own choice, which are neither the function's nor the host's.
pub(crate) fn guard_handlers(on_fault: Handler, on_tick: Handler) -> Result<(), ExecutorError> {
    FAULT_SIGNALS
        .into_iter()
        .try_for_each(|signal| install(signal, on_fault))
        .and_then(|()| install(TICK_SIGNAL, on_tick))
        .map_err(|code| ExecutorError::System {
            step: "install a signal handler",
            source: std::io::Error::from_raw_os_error(code),
        })
}

/// Installs the handlers, once in a process, and lets this thread receive their signals: a program
/// may be started with any of them blocked.
pub(crate) fn install_handlers() -> Result<(), ExecutorError> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let install_all = || {
        FAULT_SIGNALS.into_iter().try_for_each(|signal| install(signal, on_fault))?;
        install(TICK_SIGNAL, on_tick)
    };
    INSTALLED.get_or_init(install_all).and_then(|()| unblock()).map_err(|code| ExecutorError::System {
        step: "install a signal handler",
        source: std::io::Error::from_raw_os_error(code),
    })
}

fn unblock() -> Result<(), i32> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: INV-EXECUTOR-7. A live local, which the call fills.
    let _ = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in FAULT_SIGNALS.into_iter().chain([TICK_SIGNAL]) {
        // SAFETY: INV-EXECUTOR-7. A live local that was filled.
        let _ = unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: INV-EXECUTOR-7. A live local that was filled; null asks for nothing back.
    match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(code),
    }
}

pub(crate) type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn install(signal: c_int, handler: Handler) -> Result<(), i32> {
    // SAFETY: INV-EXECUTOR-7. Plain data, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // One handler at a time: each finds the state as the interrupted code left it.
    // SAFETY: INV-EXECUTOR-7. A live local.
    let _ = unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: INV-EXECUTOR-7. The handlers below keep to what a handler may do.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// The watcher or the backup timer asks: end the call if its CPU time is used up.
pub(crate) extern "C" fn on_tick(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    state::with(|state| {
        if !state.running.load(Ordering::Relaxed) {
            return;
        }
        state.handler_stack.interrupted.store(true, Ordering::Relaxed);
        let registers = Registers::of(context);
        // Not the function's: the host itself was interrupted, just before or just after the function, or in a
        // service, which looks itself when it is done.
        let in_function = window::is_functions_stack(registers.stack_pointer());
        // Never taken away here: a tick just behind the service would undo what one in it has noted.
        if state.services.running.get() {
            state.services.ticked.store(true, Ordering::Relaxed);
        }
        if state.budget.is_used_up(in_function) {
            registers.abandon(state, End::OverBudget);
        }
    });
}

/// Something faulted: end the call if it was the function, else the process.
pub(crate) extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    state::with(|state| {
        let registers = Registers::of(context);
        let in_function = window::is_functions_stack(registers.stack_pointer());
        // A service met memory of the function's that is not there, or the function's wish for aligned access. An
        // address that is none at all is told as 0, and would be the host's own mistake.
        let is_functions =
            address_of(signal, info).is_some_and(window::reaches) || is_misaligned(signal, info);
        let in_service = state.services.running.get() && is_functions;
        if !(state.running.load(Ordering::Relaxed) && (in_function || in_service)) {
            // SAFETY: INV-EXECUTOR-7. Never returns; 128 + the signal is what a shell would show.
            unsafe { libc::_exit(128 + signal) }
        }
        registers.abandon(state, end_of(state, signal, info));
    });
}

/// What a fault of the function means.
fn end_of(state: &State, signal: c_int, info: *mut libc::siginfo_t) -> End {
    match signal {
        libc::SIGSYS => End::Denied(denied_call(info)),
        _ if address_of(signal, info).is_some_and(|address| state.stack.guard_holds(address)) => {
            End::StackOverflow
        }
        other => End::Fault(other),
    }
}

/// The address that a fault of memory is about.
fn address_of(signal: c_int, info: *mut libc::siginfo_t) -> Option<usize> {
    if !matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
        return None;
    }
    // SAFETY: INV-EXECUTOR-7. The kernel's record, which lives as long as the handler runs.
    let info = unsafe { &*info };
    // SAFETY: INV-EXECUTOR-7. For these signals the record has an address.
    Some(unsafe { info.si_addr() }.addr())
}

/// Whether an access was not aligned where that was asked for: by code that is not verified, and may set the flag.
fn is_misaligned(signal: c_int, info: *mut libc::siginfo_t) -> bool {
    /// `BUS_ADRALN` of the kernel's headers.
    const ALIGNMENT: c_int = 1;
    // SAFETY: INV-EXECUTOR-7. The kernel's record, which lives as long as the handler runs.
    signal == libc::SIGBUS && unsafe { (*info).si_code } == ALIGNMENT
}

/// The number of the system call that raised SIGSYS.
fn denied_call(info: *mut libc::siginfo_t) -> i32 {
    /// `_sigsys` of the kernel's `siginfo_t` (include/uapi/asm-generic/siginfo.h), which libc's
    /// type does not show.
    #[repr(C)]
    struct SigSys {
        head: [c_int; 4],
        call_address: *mut c_void,
        call_number: c_int,
    }
    // SAFETY: INV-EXECUTOR-7. The kernel's record, 128 bytes long and aligned to 8, with this shape for SIGSYS.
    unsafe { (*info.cast::<SigSys>()).call_number }
}

/// The registers of the interrupted code, as the kernel will put them back.
struct Registers(*mut libc::ucontext_t);

impl Registers {
    fn of(context: *mut c_void) -> Self {
        Self(context.cast())
    }

    fn read(&self, register: c_int) -> usize {
        // SAFETY: INV-EXECUTOR-7. The kernel's record for this handler; the index is one of libc's names.
        unsafe { (*self.0).uc_mcontext.gregs[register as usize] as usize }
    }

    fn write(&self, register: c_int, value: usize) {
        // SAFETY: INV-EXECUTOR-7. As in `read`; the kernel checks what it puts back.
        unsafe { (*self.0).uc_mcontext.gregs[register as usize] = value as i64 };
    }

    fn stack_pointer(&self) -> usize {
        self.read(libc::REG_RSP)
    }

    /// Makes the interrupted code resume at the landing, on the host's stack (INV-EXECUTOR-5).
    fn abandon(&self, state: &State, end: End) {
        state.end.set(end);
        state.handler_stack.interrupted.store(true, Ordering::Relaxed);
        state.running.store(false, Ordering::Relaxed);
        state.services.running.set(false);
        self.write(libc::REG_RSP, state.host_stack.get());
        self.write(libc::REG_RIP, gate::landing_of(state));
        // A trap flag that the function set would strike the landing itself.
        self.write(libc::REG_EFL, FLAGS_AT_REST);
    }
}
