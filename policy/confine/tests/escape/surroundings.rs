//! What a program is born with, and what it may use up.

use std::os::unix::ffi::OsStrExt;

use mfaas_confine::Layer::{Descriptors, Limits, Namespaces, Seccomp};

use crate::stage::CANARY;
use crate::table::Then::{Did, Held};
use crate::table::Twin::{Looks, Outside};
use crate::table::{ABSENT, Probe, Went, denied, row};
use crate::{call, raw, std_errno};

const NONE: Went = Went::Errno(libc::ENOENT);

pub(crate) const PROBES: &[Probe] = &[
    row(
        "inherited_descriptor",
        "reads a key through a descriptor left open",
        |_| leaked(),
        Outside,
        NONE,
        &[(&[Descriptors], Did)],
    ),
    row(
        "standard_input",
        "reads what its starter was given",
        |_| {
            let mut found = String::new();
            std_errno(std::io::Read::read_to_string(&mut std::io::stdin(), &mut found))?;
            if found == CANARY { Ok(()) } else { Err(libc::ENOENT) }
        },
        Outside,
        NONE,
        &[(&[Descriptors], Did)],
    ),
    row(
        "name_of_machine",
        "reads the machine's name",
        |_| {
            // Six names of 65 bytes; the second is the machine's.
            let mut names = [0_u8; 390];
            call(libc::SYS_uname, &[names.as_mut_ptr().addr()])?;
            if names[65..].starts_with(b"sandbox\0") { Err(libc::ENOENT) } else { Ok(()) }
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ENOENT])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "real_user",
        "reads who runs it on the host",
        |_| {
            let user = raw(libc::SYS_getuid, [0; 6])?;
            if user == 1000 { Err(libc::ENOENT) } else { Ok(()) }
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ENOENT])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "controlling_terminal",
        "opens the terminal of the process that started it",
        |_| std_errno(std::fs::File::open("/dev/tty")).map(drop),
        Looks(&[libc::ENXIO]),
        NONE,
        &[
            (&[Namespaces], Held(&[libc::EACCES])),
            (&[Namespaces, mfaas_confine::Layer::Landlock], Held(&[libc::ENXIO])),
        ],
    ),
    row(
        "own_file_name",
        "reads where its program lies",
        |_| std_errno(std::fs::read_link("/proc/self/exe")).map(drop),
        Outside,
        NONE,
        &[(&[Namespaces], Did)],
    )
    .weaker("landlock does not hide names"),
    row(
        "memory",
        "takes more memory than it may",
        |_| take(512 << 20),
        Outside,
        Went::Errno(libc::ENOMEM),
        &[(&[Limits], Did)],
    ),
    row(
        "shared_memory",
        "takes more memory, shared with nobody",
        |_| {
            let flags = (libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
            call(
                libc::SYS_mmap,
                &[0, 2 << 30, (libc::PROT_READ | libc::PROT_WRITE) as usize, flags, usize::MAX, 0],
            )
        },
        Outside,
        Went::Errno(libc::ENOMEM),
        &[(&[Limits], Did)],
    ),
    row(
        "stack",
        "takes more stack than it may",
        |_| {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Stack);
            match limit.maximum {
                Some(bytes) if bytes <= 8 << 20 => Err(libc::ENOMEM),
                _ => Ok(()),
            }
        },
        Outside,
        Went::Errno(libc::ENOMEM),
        &[(&[Limits], Did)],
    ),
    row(
        "core_file",
        "may leave an image of its memory",
        |_| match rustix::process::getrlimit(rustix::process::Resource::Core).maximum {
            Some(0) => Err(libc::ENOENT),
            _ => Ok(()),
        },
        Outside,
        NONE,
        &[(&[Limits], Did)],
    ),
    row(
        "locked_memory",
        "locks memory",
        |_| {
            let page = [0_u8; 4096];
            call(libc::SYS_mlock, &[page.as_ptr().addr(), 4096])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM, libc::ENOMEM])), (&[Seccomp, Limits], Did)],
    ),
    row(
        "pipe_memory",
        "takes kernel memory by pipes",
        |_| {
            let mut pair = [0_i32; 2];
            call(libc::SYS_pipe2, &[pair.as_mut_ptr().addr(), 0])?;
            const SET_PIPE_SIZE: usize = 1031;
            raw(libc::SYS_fcntl, [pair[1] as usize, SET_PIPE_SIZE, 1 << 20, 0, 0, 0]).map(drop)
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Did)],
    ),
    row(
        "cpu_time",
        "may use the processor for ever",
        |_| match rustix::process::getrlimit(rustix::process::Resource::Cpu).maximum {
            Some(_) => Err(libc::ENOENT),
            None => Ok(()),
        },
        Outside,
        NONE,
        &[(&[Limits], Did)],
    ),
    denied(
        "time_of_day_zone",
        "asks the kernel by a number of old",
        |_| call(libc::SYS_time, &[0]),
        Outside,
        ABSENT,
    ),
    row(
        "variables",
        "reads variables of the process that started it",
        |_| {
            let found = std::env::vars_os().any(|(_, value)| value.as_bytes() == CANARY.as_bytes());
            if found { Ok(()) } else { Err(libc::ENOENT) }
        },
        Outside,
        NONE,
        &[(&[Descriptors], Did)],
    ),
];

/// Any descriptor beyond the three of a program that yields the canary.
fn leaked() -> Result<(), i32> {
    let mut found = vec![0; CANARY.len()];
    let buffer = found.as_mut_ptr().addr();
    let hit = (3..256)
        .any(|number| raw(libc::SYS_pread64, [number, buffer, CANARY.len(), 0, 0, 0]) == Ok(CANARY.len()));
    if hit && found == CANARY.as_bytes() { Ok(()) } else { Err(libc::ENOENT) }
}

fn take(bytes: usize) -> Result<(), i32> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    call(libc::SYS_mmap, &[0, bytes, (libc::PROT_READ | libc::PROT_WRITE) as usize, flags, usize::MAX, 0])
}
