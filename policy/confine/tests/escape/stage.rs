//! What attempts are made on: a victim process, files with a canary, sockets, segments of the host.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::raw;

/// Key material of nobody: what must never be found inside.
pub(crate) const CANARY: &str = "canary-5f1e0c9a-signing-key";
pub(crate) const CANARY_VARIABLE: &str = "MFAAS_CANARY";
/// The first argument that makes this executable a victim.
pub(crate) const VICTIM: &str = "victim";

/// Where everything is. Travels as one argument, because a sandbox passes nothing else on.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// A process of the same user on the host, with a canary in its memory, environment and arguments.
    pub(crate) victim: usize,
    /// Where that canary is.
    pub(crate) address: usize,
    pub(crate) port: u16,
    /// Names an abstract socket.
    pub(crate) tag: String,
    pub(crate) segment: usize,
    pub(crate) semaphores: usize,
    pub(crate) messages: usize,
    /// On the host alone: `secret` (0600), `public` (0644), `socket`.
    pub(crate) host: PathBuf,
    /// Host and sandbox: writable.
    pub(crate) scratch: PathBuf,
    /// Host and sandbox: read-only.
    pub(crate) readable: PathBuf,
}

impl Stage {
    pub(crate) fn encode(&self) -> String {
        let Self { victim, address, port, tag, segment, semaphores, messages, host, scratch, readable } =
            self;
        let (host, scratch, readable) = (host.display(), scratch.display(), readable.display());
        format!(
            "{victim} {address} {port} {tag} {segment} {semaphores} {messages} {host} {scratch} {readable}"
        )
    }

    pub(crate) fn decode(text: &str) -> Self {
        let fields: Vec<&str> = text.split(' ').collect();
        let number = |index: usize| fields[index].parse::<usize>().unwrap();
        Self {
            victim: number(0),
            address: number(1),
            port: u16::try_from(number(2)).unwrap(),
            tag: fields[3].to_owned(),
            segment: number(4),
            semaphores: number(5),
            messages: number(6),
            host: PathBuf::from(fields[7]),
            scratch: PathBuf::from(fields[8]),
            readable: PathBuf::from(fields[9]),
        }
    }
}

/// What has to live while attempts are made.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    victim: Child,
    /// Open and not closed on execution: a descriptor that a careless parent passes on.
    pub(crate) leaked: OwnedFd,
    _directory: tempfile::TempDir,
    _listeners: (TcpListener, UnixListener, UnixListener),
}

impl Scene {
    pub(crate) fn set() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, mode) in [("host", 0o755), ("scratch", 0o755), ("readable", 0o755)] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in [("secret", 0o600), ("public", 0o644)] {
            std::fs::write(path("host").join(name), CANARY).unwrap();
            std::fs::set_permissions(path("host").join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::write(path("readable").join("file"), "readable").unwrap();
        prepare_scratch(&path("scratch"), &path("host"));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let named = UnixListener::bind(path("host").join("socket")).unwrap();
        let tag = format!("mfaas-escape-{}", std::process::id());
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&tag).unwrap()).unwrap();
        let (victim, address) = start_victim();
        let segment = raw(libc::SYS_shmget, [0, 4096, 0o600 | libc::IPC_CREAT as usize, 0, 0, 0]).unwrap();
        let semaphores = raw(libc::SYS_semget, [0, 1, 0o600 | libc::IPC_CREAT as usize, 0, 0, 0]).unwrap();
        let messages = raw(libc::SYS_msgget, [0, 0o600 | libc::IPC_CREAT as usize, 0, 0, 0, 0]).unwrap();
        let leaked = OwnedFd::from(std::fs::File::open(path("host").join("secret")).unwrap());
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let stage = Stage {
            victim: victim.id() as usize,
            address,
            port: tcp.local_addr().unwrap().port(),
            tag,
            segment,
            semaphores,
            messages,
            host: path("host"),
            scratch: path("scratch"),
            readable: path("readable"),
        };
        Self { stage, victim, leaked, _directory: directory, _listeners: (tcp, named, hidden) }
    }
}

/// Links that an earlier step could have left, and a program.
fn prepare_scratch(scratch: &Path, host: &Path) {
    let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, scratch.join(name)).unwrap();
    link(&host.join("public"), "absolute");
    link(Path::new("../host/public"), "relative");
    link(host, "directory");
    std::fs::write(scratch.join("plain"), "plain").unwrap();
    let program = scratch.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn start_victim() -> (Child, usize) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([VICTIM, CANARY])
        .env(CANARY_VARIABLE, CANARY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (victim, line.trim().parse().unwrap())
}

/// `victim CANARY`: says where its canary lies and waits for the end of its input.
pub(crate) fn be_victim(canary: &str) {
    let held = canary.to_owned().into_bytes();
    println!("{}", held.as_ptr().addr());
    std::io::stdout().flush().unwrap();
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::hint::black_box(held);
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let remove = libc::IPC_RMID as usize;
        let _ = raw(libc::SYS_shmctl, [self.stage.segment, remove, 0, 0, 0, 0]);
        let _ = raw(libc::SYS_semctl, [self.stage.semaphores, 0, remove, 0, 0, 0]);
        let _ = raw(libc::SYS_msgctl, [self.stage.messages, remove, 0, 0, 0, 0]);
    }
}
