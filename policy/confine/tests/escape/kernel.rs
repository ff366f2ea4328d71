//! Parts of the kernel that a compiler has no use for, and other ways to call it.

use std::arch::asm;

use mfaas_confine::Layer::{Namespaces, Seccomp};

use crate::table::Then::{Did, Held};
use crate::table::Twin::{AsRoot, Looks, Outside};
use crate::table::{ABSENT, Probe, Went, denied, row};
use crate::{call, raw, text};

const SIGSYS: Went = Went::Killed;

pub(crate) const SURFACE: &[Probe] = &[
    denied(
        "programs_in_kernel",
        "loads a program into the kernel",
        |_| call(libc::SYS_bpf, &[9999, 0, 0]),
        Looks(&[libc::EINVAL, libc::EPERM]),
        SIGSYS,
    ),
    denied(
        "performance_counters",
        "counts events of the processor",
        |_| call(libc::SYS_perf_event_open, &[0, 0, usize::MAX, usize::MAX, 0]),
        Looks(&[libc::EFAULT, libc::EACCES]),
        SIGSYS,
    ),
    denied(
        "page_faults",
        "handles page faults of the kernel",
        |_| call(libc::SYS_userfaultfd, &[usize::MAX]),
        Looks(&[libc::EINVAL, libc::EPERM]),
        SIGSYS,
    ),
    denied(
        "segments_of_memory",
        "changes its descriptor table",
        |_| call(libc::SYS_modify_ldt, &[0, 0, 0]),
        Outside,
        ABSENT,
    ),
    denied(
        "disk_quotas",
        "changes quotas",
        |_| call(libc::SYS_quotactl, &[0, 0, 0, 0]),
        Looks(&[libc::ENODEV, libc::EINVAL, libc::ENOTBLK, libc::EPERM, libc::EFAULT]),
        ABSENT,
    ),
    denied(
        "swap_on",
        "has memory written to its file",
        |_| call(libc::SYS_swapon, &[text(c"/absent"), 0]),
        Looks(&[libc::ENOENT, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "swap_off",
        "has swapped memory read back",
        |_| call(libc::SYS_swapoff, &[text(c"/absent")]),
        Looks(&[libc::ENOENT, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "restart_machine",
        "restarts the machine",
        |_| call(libc::SYS_reboot, &[0, 0, 0]),
        Looks(&[libc::EINVAL, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "set_time",
        "sets the clock",
        |_| {
            let never = [-1_i64, -1];
            call(libc::SYS_settimeofday, &[never.as_ptr().addr(), 0])
        },
        Looks(&[libc::EINVAL, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "set_clock",
        "sets a clock",
        |_| {
            let never = [-1_i64, -1];
            call(libc::SYS_clock_settime, &[0, never.as_ptr().addr()])
        },
        Looks(&[libc::EINVAL, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "adjust_clock",
        "reads how the clock is kept",
        |_| {
            let mut timex = [0_u64; 32];
            call(libc::SYS_adjtimex, &[timex.as_mut_ptr().addr()])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "accounting",
        "has every process written down",
        |_| call(libc::SYS_acct, &[text(c"/absent")]),
        Looks(&[libc::ENOENT, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "kernel_messages",
        "reads the kernel's messages",
        |_| call(libc::SYS_syslog, &[10, 0, 0]),
        AsRoot,
        ABSENT,
    ),
    denied(
        "message_queue",
        "leaves a queue for others",
        |_| {
            let (name, create) = (text(c"mfaas-escape"), (libc::O_CREAT | libc::O_RDWR) as usize);
            call(libc::SYS_mq_open, &[name, create, 0o600, 0])?;
            call(libc::SYS_mq_unlink, &[name])
        },
        Outside,
        ABSENT,
    ),
    row(
        "attach_segment",
        "maps a memory segment of the host",
        |s| call(libc::SYS_shmat, &[s.segment, 0, 0]),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EINVAL, libc::EIDRM])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "open_semaphores",
        "reads semaphores of the host",
        |s| call(libc::SYS_semctl, &[s.semaphores, 0, libc::GETVAL as usize]),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EINVAL, libc::EIDRM])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "open_messages",
        "sends to a message queue of the host",
        |s| {
            let message = [1_usize, 0];
            call(libc::SYS_msgsnd, &[s.messages, message.as_ptr().addr(), 1, libc::IPC_NOWAIT as usize])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EINVAL, libc::EIDRM])), (&[Seccomp, Namespaces], Did)],
    ),
    denied(
        "make_segment",
        "leaves a memory segment behind",
        |_| {
            let made = raw(libc::SYS_shmget, [0, 4096, 0o600 | libc::IPC_CREAT as usize, 0, 0, 0])?;
            call(libc::SYS_shmctl, &[made, libc::IPC_RMID as usize, 0])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "make_semaphores",
        "leaves semaphores behind",
        |_| {
            let made = raw(libc::SYS_semget, [0, 1, 0o600 | libc::IPC_CREAT as usize, 0, 0, 0])?;
            call(libc::SYS_semctl, &[made, 0, libc::IPC_RMID as usize])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "make_messages",
        "leaves a message queue behind",
        |_| {
            let made = raw(libc::SYS_msgget, [0, 0o600 | libc::IPC_CREAT as usize, 0, 0, 0, 0])?;
            call(libc::SYS_msgctl, &[made, libc::IPC_RMID as usize, 0])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "filter_listener",
        "answers its own system calls, by a further filter",
        |_| {
            const LISTENER: usize = 1 << 3;
            // `allow` for every call.
            let program = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }];
            let head = libc::sock_fprog { len: 1, filter: program.as_ptr().cast_mut() };
            // SAFETY: INV-CONFINE-2 holds emptily: the call takes no pointer.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            call(libc::SYS_seccomp, &[1, LISTENER, (&raw const head).addr()])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "strict_filter",
        "locks itself down, to confuse the waiting process",
        |_| call(libc::SYS_seccomp, &[9999, 0, 0]),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    denied(
        "further_landlock",
        "makes rules of its own",
        |_| call(libc::SYS_landlock_create_ruleset, &[0, 0, 1]),
        Outside,
        ABSENT,
    ),
    denied(
        "secret_memory",
        "keeps memory from the kernel",
        |_| call(libc::SYS_memfd_secret, &[9999]),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    denied(
        "nameless_file",
        "makes a file without a name",
        |_| call(libc::SYS_memfd_create, &[text(c"x"), 0]),
        Outside,
        ABSENT,
    ),
    denied(
        "memory_policy",
        "binds memory to a node",
        |_| call(libc::SYS_set_mempolicy, &[0, 0, 0]),
        Outside,
        ABSENT,
    ),
    denied(
        "lock_memory",
        "keeps memory from being swapped",
        |_| call(libc::SYS_mlockall, &[1]),
        AsRoot,
        ABSENT,
    ),
    denied(
        "memory_keys",
        "takes a protection key",
        |_| call(libc::SYS_pkey_alloc, &[9999, 0]),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    denied(
        "timers",
        "makes a timer that signals",
        |_| {
            let mut timer = 0_usize;
            call(libc::SYS_timer_create, &[1, 0, (&raw mut timer).addr()])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "timer_file",
        "makes a timer as a file",
        |_| call(libc::SYS_timerfd_create, &[1, 0]),
        Outside,
        ABSENT,
    ),
    denied(
        "signal_file",
        "reads signals as a file",
        |_| {
            let none = 0_u64;
            call(libc::SYS_signalfd4, &[usize::MAX, (&raw const none).addr(), 8, 0])
        },
        Outside,
        ABSENT,
    ),
    denied("interval_timer", "signals itself for ever", |_| call(libc::SYS_alarm, &[0]), Outside, ABSENT),
    denied("event_file", "makes a counter as a file", |_| call(libc::SYS_eventfd2, &[0, 0]), Outside, ABSENT),
    denied("event_queue", "makes an event queue", |_| call(libc::SYS_epoll_create1, &[0]), Outside, ABSENT),
    denied(
        "pipes_by_page",
        "moves pages between files",
        |_| call(libc::SYS_splice, &[9999, 0, 9999, 0, 1, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "pages_to_pipe",
        "gives its pages away",
        |_| call(libc::SYS_vmsplice, &[9999, 0, 0, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "cached_pages",
        "asks which pages of a file are in memory",
        |_| call(451, &[9999, 0, 0, 0]),
        Looks(&[libc::EBADF, libc::EFAULT]),
        ABSENT,
    ),
    denied(
        "resident_pages",
        "asks which pages others have read",
        |_| call(libc::SYS_mincore, &[1, 0, 0]),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    denied(
        "file_system_numbers",
        "asks for file systems by number",
        |_| call(libc::SYS_sysfs, &[3]),
        Outside,
        ABSENT,
    ),
    denied(
        "flush_everything",
        "writes every file system out",
        |_| call(libc::SYS_syncfs, &[9999]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "hang_on_locks",
        "waits for many locks",
        |_| call(449, &[0, 0, 0, 0, 0]),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    denied(
        "thread_area",
        "asks for areas of 32-bit threads",
        |_| call(libc::SYS_remap_file_pages, &[1, 0, 0, 0, 0]),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    row(
        "raise_limits",
        "raises its own limits",
        |_| {
            let new = [4096_u64, 4096];
            call(libc::SYS_prlimit64, &[0, libc::RLIMIT_NOFILE as usize, new.as_ptr().addr(), 0])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, mfaas_confine::Layer::Limits], Did)],
    ),
    row(
        "raise_limits_the_old_way",
        "raises its own limits by the old call",
        |_| {
            let new = [4096_u64, 4096];
            call(libc::SYS_setrlimit, &[libc::RLIMIT_NOFILE as usize, new.as_ptr().addr()])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, mfaas_confine::Layer::Limits], Did)],
    ),
    row(
        "dump_core",
        "leaves an image of its memory",
        |_| {
            let new = [u64::MAX, u64::MAX];
            call(libc::SYS_prlimit64, &[0, libc::RLIMIT_CORE as usize, new.as_ptr().addr(), 0])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, mfaas_confine::Layer::Limits], Did)],
    ),
];

/// The i386 and x32 tables, and numbers that no table has.
pub(crate) const TABLES: &[Probe] = &[
    denied("thirty_two_bit_gate", "calls by int 0x80", |_| through_gate(20, 0, 0).map(drop), Outside, SIGSYS),
    denied(
        "thirty_two_bit_open",
        "opens a file by int 0x80",
        |_| {
            // Number 5: open there, fstat here. The path would have to lie below 4 GiB: EFAULT is the i386 table's answer.
            match through_gate(5, 0, 0) {
                Err(libc::EFAULT) => Ok(()),
                other => other.map(drop),
            }
        },
        Outside,
        SIGSYS,
    ),
    denied(
        "thirty_two_bit_read",
        "reads by the number of another call",
        |_| {
            // Number 0 there is restart_syscall, here read.
            match through_gate(0, 0, 0) {
                Err(libc::EINTR) => Ok(()),
                other => other.map(drop),
            }
        },
        Outside,
        SIGSYS,
    ),
    denied("far_jump", "runs 32-bit code", |_| far_jump(), Outside, ABSENT),
    denied("x32_getpid", "calls by the x32 table", |_| x32(libc::SYS_getpid), Looks(&[libc::ENOSYS]), SIGSYS),
    denied(
        "x32_open",
        "opens a file by the x32 table",
        |_| x32(libc::SYS_open),
        Looks(&[libc::ENOSYS]),
        SIGSYS,
    ),
    denied(
        "x32_execve",
        "executes by a number that x32 alone has",
        |_| x32(520),
        Looks(&[libc::ENOSYS]),
        SIGSYS,
    ),
    denied("number_minus_one", "calls number -1", |_| call(-1, &[]), Looks(&[libc::ENOSYS]), SIGSYS),
    denied(
        "number_of_all_bits",
        "calls the highest number",
        |_| call(0x7fff_ffff, &[]),
        Looks(&[libc::ENOSYS]),
        SIGSYS,
    ),
    denied("old_gate", "calls through the page that old programs use", |_| old_time(), Outside, ABSENT),
];

fn x32(number: libc::c_long) -> Result<(), i32> {
    call(number | 0x4000_0000, &[0, 0, 0])
}

fn through_gate(number: i32, first: usize, second: usize) -> Result<i32, i32> {
    let answer: i32;
    // SAFETY: INV-CONFINE-2: the calls made take no pointer that is valid; the gate changes rax and
    // r8 to r11. rbx is LLVM's own and is put back.
    unsafe {
        asm!(
            "xchg rbx, {first}", "int 0x80", "xchg rbx, {first}",
            first = inout(reg) first => _, inlateout("eax") number => answer, in("ecx") second, in("edx") 0,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _
        );
    }
    if answer < 0 { Err(-answer) } else { Ok(answer) }
}

/// 32-bit code in a page below 4 GiB, reached by a far jump: it ends the process by the i386 table.
fn far_jump() -> Result<(), i32> {
    // mov eax, 1; xor ebx, ebx; int 0x80
    const CODE: [u8; 9] = [0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80];
    const CODE_SEGMENT_32: u64 = 0x23;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT) as usize;
    let page =
        raw(libc::SYS_mmap, [0, 4096, (libc::PROT_READ | libc::PROT_WRITE) as usize, flags, usize::MAX, 0])?;
    let code = std::ptr::with_exposed_provenance_mut::<u8>(page);
    // SAFETY: INV-CONFINE-2: the page was mapped above, is writable and longer than the code.
    unsafe { std::ptr::copy_nonoverlapping(CODE.as_ptr(), code, CODE.len()) };
    call(libc::SYS_mprotect, &[page, 4096, (libc::PROT_READ | libc::PROT_EXEC) as usize])?;
    let target = u64::try_from(page).unwrap_or(0) | (CODE_SEGMENT_32 << 32);
    // SAFETY: INV-CONFINE-2: the far pointer lives in this frame; the code above ends the process.
    unsafe { asm!("jmp fword ptr [{target}]", target = in(reg) &raw const target, options(noreturn)) }
}

/// `time` at its fixed address.
fn old_time() -> Result<(), i32> {
    const TIME: usize = 0xffff_ffff_ff60_0400;
    let number: isize;
    // SAFETY: INV-CONFINE-2: a null pointer is allowed. Where the page is absent the process gets SIGSEGV.
    unsafe {
        asm!("call {time}", time = in(reg) TIME, in("rdi") 0, out("rax") number, clobber_abi("C"));
    }
    if number > 0 { Ok(()) } else { Err(i32::try_from(-number).unwrap_or(libc::EIO)) }
}
