//! A hundred and more ways out of a sandbox, each with a twin that works elsewhere and with layers
//! taken off. One executable is the runner, the process that becomes the sandbox, the attacker and
//! his victim. `escape --table` prints what came of each.
#![allow(unsafe_code, reason = "attempts are system calls by number")]
#![allow(clippy::print_stdout, reason = "a test runner reports on standard output")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod kernel;
mod others;
mod powers;
mod runs;
mod stage;
mod surroundings;
mod table;

use std::process::ExitCode;

use table::Probe;

/// The families, in the order of the report.
const FAMILIES: &[(&str, &[Probe])] = &[
    ("files", files::PROBES),
    ("mounts, namespaces, privileges", powers::PROBES),
    ("network", others::NETWORK),
    ("processes", others::PROCESSES),
    ("kernel surface", kernel::SURFACE),
    ("other tables of system calls", kernel::TABLES),
    ("surroundings and limits", surroundings::PROBES),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(runs::SANDBOX) => runs::enter_sandbox(&arguments[1..]),
        Some(runs::ATTEMPT) => runs::attempt(&arguments[1], &arguments[2]),
        Some(stage::VICTIM) => {
            stage::be_victim(&arguments[1]);
            ExitCode::SUCCESS
        }
        _ => runs::run_table(&arguments),
    }
}

fn find(name: &str) -> &'static Probe {
    let mut all = FAMILIES.iter().flat_map(|(_, probes)| probes.iter());
    all.find(|probe| probe.name == name).unwrap_or_else(|| panic!("no probe {name}"))
}

/// A system call by its number.
pub(crate) fn raw(number: libc::c_long, [a, b, c, d, e, f]: [usize; 6]) -> Result<usize, i32> {
    // SAFETY: INV-CONFINE-2: the kernel checks every pointer it is given; probes pass null, memory
    // of their own of the right size, or read-only text.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(result).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// The same, when nothing is wanted but whether it works.
pub(crate) fn call(number: libc::c_long, arguments: &[usize]) -> Result<(), i32> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    raw(number, all).map(drop)
}

/// What `std` was told.
pub(crate) fn std_errno<T>(result: std::io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

/// The address of a text that ends with a zero.
pub(crate) fn text(text: &'static std::ffi::CStr) -> usize {
    text.as_ptr().addr()
}
