//! What the kernel and the installed programs offer to `mfaas up`.

use std::path::Path;

use mfaas_isolation_client::{Request, Response, ask};
use mfaas_rules::profiles::image_layout::{BANK_BYTES, TENANT_IMAGES_MAX};
use mfaas_supervisor::{Home, Siblings, find_postgres, find_sysroot};

use super::check::Check;

/// Room for a toolchain, dependencies and a database, in bytes.
const DISK_BYTES_MIN: u64 = 3 << 30;

/// The landlock version that also restricts truncation (kernel 6.2); the sandbox uses what is there.
const LANDLOCK_ABI_WANTED: u32 = 3;

/// Every check of this machine.
pub(super) fn checks() -> Vec<Check> {
    vec![
        programs(),
        user_namespaces(),
        landlock(),
        seccomp(),
        build_limits(),
        protection_keys(),
        window(),
        isolation(),
        toolchain(),
        host_linker(),
        database(),
        disk(),
    ]
}

fn programs() -> Check {
    const NAME: &str = "programs";
    match Siblings::beside_us() {
        Ok(_) => Check::good(NAME, "server, signer, builder, node and worker are beside mfaas"),
        Err(failure) => Check::bad(NAME, failure.to_string(), "cargo build --release"),
    }
}

/// What the isolation controller of this machine's home says of its mechanisms; without one, nothing keeps builds from being felt.
fn isolation() -> Check {
    const NAME: &str = "performance isolation";
    let status = Home::default_root().map(|root| Home::at(&root).isolation_socket());
    let status = status.ok().and_then(|socket| ask(&socket, &Request::Status).ok());
    let Some(Response::Status(status)) = status else {
        return Check::weaker(
            NAME,
            "no isolation controller answers: builds are felt by calls",
            "`mfaas up --isolation idle-class` starts one with everything else",
        );
    };
    let missing: Vec<_> = status
        .mechanisms
        .iter()
        .filter_map(|mechanism| Some(format!("{}: {}", mechanism.name, mechanism.missing.as_deref()?)))
        .collect();
    if status.off {
        Check::weaker(NAME, "the kill switch is pulled: nothing is limited", "mfaas node isolation on")
    } else if missing.is_empty() {
        Check::good(NAME, format!("{}, with all mechanisms", status.mode))
    } else {
        let missing = mfaas_ident::sanitise_line(&missing.join("; "), 600);
        Check::weaker(
            NAME,
            format!("{}, without {missing}", status.mode),
            "run as root, on a kernel that has them",
        )
    }
}

/// Asks the kernel by doing it: a process in a user namespace of its own.
fn user_namespaces() -> Check {
    const NAME: &str = "user namespaces";
    let tried = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "true"])
        .output();
    match tried {
        Ok(output) if output.status.success() => Check::good(NAME, "may be made"),
        Ok(output) => Check::weaker(
            NAME,
            format!("refused: {}", String::from_utf8_lossy(&output.stderr).trim()),
            "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 kernel.apparmor_restrict_unprivileged_userns=0, or accept less with `mfaas up --sandbox-minimum landlock`",
        ),
        Err(error) => Check::weaker(NAME, format!("cannot try: {error}"), "apt-get install util-linux"),
    }
}

fn landlock() -> Check {
    const NAME: &str = "landlock";
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let offered = landlock_of_kernel(kernel.trim());
    let listed = modules.split(',').any(|module| module.trim() == "landlock");
    match (listed || modules.is_empty(), offered) {
        (true, Some(abi)) if abi >= LANDLOCK_ABI_WANTED => {
            Check::good(NAME, format!("kernel {} (ABI {abi} or newer)", kernel.trim()))
        }
        (true, Some(abi)) => Check::weaker(NAME, format!("ABI {abi}"), "a kernel from 6.2 on"),
        (false, _) => Check::bad(
            NAME,
            format!("not among the active modules ({})", modules.trim()),
            "boot with lsm=landlock,… and CONFIG_SECURITY_LANDLOCK=y",
        ),
        (_, None) => Check::bad(NAME, format!("kernel {}", kernel.trim()), "a kernel from 5.13 on"),
    }
}

/// The oldest landlock ABI that a kernel of this version has; `None` before 5.13.
pub(super) fn landlock_of_kernel(release: &str) -> Option<u32> {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let version = (numbers.next()??, numbers.next()??);
    [((6, 10), 5), ((6, 7), 4), ((6, 2), 3), ((5, 19), 2), ((5, 13), 1)]
        .into_iter()
        .find(|(since, _)| version >= *since)
        .map(|(_, abi)| abi)
}

fn seccomp() -> Check {
    const NAME: &str = "seccomp filters";
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.contains("kill_process") && actions.contains("trap") {
        Check::good(NAME, "kill and trap are offered")
    } else {
        Check::bad(
            NAME,
            format!("offered: {}", actions.trim()),
            "a kernel with CONFIG_SECCOMP_FILTER=y, from 4.14 on",
        )
    }
}

/// How a builder keeps the limits on all processes of a build together. It writes the same into
/// its log when it starts.
fn build_limits() -> Check {
    const NAME: &str = "limits of a build";
    let own = std::process::id();
    if Path::new(&format!("/proc/self/task/{own}/children")).exists() {
        Check::good(NAME, "for all its processes together, measured every 50 ms")
    } else {
        Check::weaker(NAME, "for each of its processes alone", "boot a kernel with CONFIG_PROC_CHILDREN=y")
    }
}

fn protection_keys() -> Check {
    const NAME: &str = "protection keys";
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| {
        cpu.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|word| word == flag))
    };
    if has("ospke") {
        Check::good(NAME, "offered by processor and kernel: tenants may share worker processes")
    } else {
        Check::weaker(
            NAME,
            "not offered: each tenant gets worker processes of its own",
            "nothing to do, unless the node is told to let tenants share workers (MFAAS_SHARE_WORKERS)",
        )
    }
}

/// The lowest address that programs may map, in bytes.
const MAP_START_MAX: u64 = 64 << 10;

/// Whether a worker can have its window, and how much fits into one.
fn window() -> Check {
    let start = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr").unwrap_or_default();
    window_of(start.trim().parse().ok())
}

/// The same for a lowest address that the kernel says.
pub(super) fn window_of(map_start: Option<u64>) -> Check {
    const NAME: &str = "window of a worker";
    match map_start {
        Some(start) if start <= MAP_START_MAX => Check::good(
            NAME,
            format!(
                "{} MiB each of code, data and constants, up to {TENANT_IMAGES_MAX} functions of a tenant; \
                 a tenant with more gets another window and workers for it",
                BANK_BYTES >> 20
            ),
        ),
        _ => Check::bad(
            NAME,
            "the kernel keeps more than the first 64 KiB of addresses for itself, which workers close",
            "sysctl -w vm.mmap_min_addr=65536",
        ),
    }
}

fn toolchain() -> Check {
    const NAME: &str = "Rust 1.95.0";
    match find_sysroot() {
        Ok(path) => Check::good(NAME, path.display().to_string()),
        Err(failure) => {
            Check::bad(NAME, failure.to_string(), "rustup toolchain install 1.95.0 --profile minimal")
        }
    }
}

fn host_linker() -> Check {
    const NAME: &str = "C linker";
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|dir| dir.join("cc")).find(|cc| cc.is_file()) {
        Some(cc) => Check::good(NAME, cc.display().to_string()),
        None => Check::bad(
            NAME,
            "no cc in PATH",
            "apt-get install gcc libc6-dev (for our own programs and the dependencies' macros; functions link without it)",
        ),
    }
}

fn database() -> Check {
    const NAME: &str = "PostgreSQL";
    if std::env::var_os("DATABASE_URL").is_some() {
        return Check::good(NAME, "DATABASE_URL names an existing one");
    }
    match find_postgres() {
        Ok(path) => Check::good(NAME, path.display().to_string()),
        Err(failure) => Check::bad(NAME, failure.to_string(), "apt-get install postgresql"),
    }
}

fn disk() -> Check {
    const NAME: &str = "disk";
    let Ok(root) = Home::default_root() else {
        return Check::bad(NAME, "there is no home directory", "set HOME, or use `mfaas up --home`");
    };
    let existing = root.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found =
                format!("{:.1} GiB free below {}", free as f64 / f64::from(1 << 30), existing.display());
            if free >= DISK_BYTES_MIN {
                Check::good(NAME, found)
            } else {
                Check::bad(NAME, found, "make 3 GiB of room, or use `mfaas up --home`")
            }
        }
        Err(error) => Check::bad(
            NAME,
            format!("{}: {error}", existing.display()),
            "use `mfaas up --home` on a file system that works",
        ),
    }
}
