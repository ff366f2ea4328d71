//! A process under `ptrace`: where it stands, one instruction further, up to an instruction, and with a
//! signal.

use std::ffi::c_int;
use std::fs::File;
use std::mem::{MaybeUninit, offset_of};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command};

pub(crate) type Registers = libc::user_regs_struct;

/// Why a process stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A trap, with the kernel's word for its kind.
    Trap(c_int),
    /// Before or behind a system call.
    SystemCall,
    /// Another signal is about to be delivered.
    Signal(c_int),
    /// It is no more.
    Ended(c_int),
}

/// Kinds of traps, as `si_code` of the kernel's headers has them.
pub(crate) const SI_KERNEL: c_int = 0x80;
pub(crate) const TRAP_HWBKPT: c_int = 4;

const TRAP_FLAG: u64 = 0x100;

pub(crate) struct Tracee {
    child: Child,
    memory: File,
}

impl Tracee {
    /// Starts this program as the one that is traced, up to its first stop.
    pub(crate) fn start(variable: &str) -> Self {
        let program = std::env::current_exe().expect("our own program");
        let child = Command::new(program).env(variable, "1").spawn().expect("it starts");
        let (id, mut status) = (child.id() as c_int, 0);
        // SAFETY: our own child, and a live local.
        let stopped = unsafe { libc::waitpid(id, &raw mut status, libc::WUNTRACED) };
        assert!(stopped == id && libc::WIFSTOPPED(status), "the traced program has ended: {status:#x}");
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{}/mem", child.id()))
            .expect("its memory");
        let tracee = Self { child, memory };
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        tracee.request(libc::PTRACE_SETOPTIONS, 0, options as usize);
        tracee
    }

    /// Requests of which the answer is whether they were possible.
    fn request(&self, request: libc::c_uint, address: usize, data: usize) {
        // SAFETY: numbers alone, or a pointer to a live local of the caller's.
        let answer = unsafe { libc::ptrace(request, self.child.id(), address, data) };
        assert_ne!(answer, -1, "ptrace {request}: {}", std::io::Error::last_os_error());
    }

    pub(crate) fn registers(&self) -> Registers {
        let mut registers = MaybeUninit::<Registers>::zeroed();
        self.request(libc::PTRACE_GETREGS, 0, registers.as_mut_ptr().expose_provenance());
        // SAFETY: filled by the kernel, and zeros are a value of it.
        unsafe { registers.assume_init() }
    }

    pub(crate) fn read(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.memory.read_exact_at(&mut word, address).expect("mapped");
        u64::from_le_bytes(word)
    }

    pub(crate) fn write(&self, address: u64, word: u64) {
        self.memory.write_all_at(&word.to_le_bytes(), address).expect("mapped");
    }

    /// One instruction further. With a signal: to the first instruction of its handler.
    pub(crate) fn step(&self, signal: c_int) -> Stop {
        self.resume(libc::PTRACE_SINGLESTEP, signal)
    }

    /// Up to a trap, with or without a signal.
    pub(crate) fn go_on(&self, signal: c_int) -> Stop {
        // What was stepped through may have taken the trap flag for its own, and kept it.
        let mut registers = self.registers();
        if registers.eflags & TRAP_FLAG != 0 {
            registers.eflags &= !TRAP_FLAG;
            self.request(libc::PTRACE_SETREGS, 0, (&raw const registers).expose_provenance());
        }
        self.resume(libc::PTRACE_CONT, signal)
    }

    /// Up to the next system call, or out of it.
    pub(crate) fn to_system_call(&self) -> Stop {
        self.resume(libc::PTRACE_SYSCALL, 0)
    }

    /// Ticks that are not the tracer's, of the timer, are kept from it.
    fn resume(&self, how: libc::c_uint, signal: c_int) -> Stop {
        let mut signal = signal;
        loop {
            self.request(how, 0, signal as usize);
            match self.wait() {
                Stop::Signal(mfaas_executor::TICK_SIGNAL) => signal = 0,
                stop => return stop,
            }
        }
    }

    fn wait(&self) -> Stop {
        let mut status = 0;
        let child = self.child.id() as c_int;
        // SAFETY: our own child, and a live local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        if !libc::WIFSTOPPED(status) {
            return Stop::Ended(status);
        }
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => Stop::Trap(self.trap_kind()),
            signal if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
            signal => Stop::Signal(signal),
        }
    }

    fn trap_kind(&self) -> c_int {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        self.request(libc::PTRACE_GETSIGINFO, 0, info.as_mut_ptr().expose_provenance());
        // SAFETY: filled by the kernel, and zeros are a value of it.
        unsafe { info.assume_init() }.si_code
    }

    /// Stops before these instructions are executed, at most four of them.
    pub(crate) fn stop_at(&self, addresses: &[u64]) {
        let register = |number: usize| offset_of!(libc::user, u_debugreg) + number * size_of::<u64>();
        self.request(libc::PTRACE_POKEUSER, register(7), 0);
        for (number, address) in addresses.iter().enumerate() {
            self.request(libc::PTRACE_POKEUSER, register(number), *address as usize);
        }
        // For each the bit that makes it this process's; the zeros of its kind and length say "execution".
        let enabled = (0..addresses.len()).map(|number| 1 << (2 * number)).sum();
        self.request(libc::PTRACE_POKEUSER, register(7), enabled);
    }

    /// Lets it go to its end, and says how that was.
    pub(crate) fn finish(mut self) -> std::process::ExitStatus {
        self.request(libc::PTRACE_DETACH, 0, 0);
        self.child.wait().expect("our own child")
    }
}

/// The registers that a callee keeps.
pub(crate) fn kept(registers: &Registers) -> [u64; 6] {
    [registers.rbx, registers.rbp, registers.r12, registers.r13, registers.r14, registers.r15]
}
