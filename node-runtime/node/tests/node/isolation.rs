//! What the isolation controller of the machine says goes to the server, and what the site wants comes back, with the real programs.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mfaas_delivery::{IsolationReport, IsolationSettings, SERVER_PROTOCOL, SiteIsolation};
use mfaas_isolation_client::{Change, Mode, Request, Response, Status, ask};
use rustix::process::{Pid, Signal, kill_process};

use crate::documents::Signer;
use crate::program::{Home, beside};
use crate::server::Server;

/// Two reports come ten seconds apart, and machines are busy.
const SOON: Duration = Duration::from_secs(60);

/// A controller with a directory of its own; it lifts its limits and removes its groups when the test ends.
struct Controller {
    child: Child,
    directory: tempfile::TempDir,
}

impl Controller {
    async fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let child = Command::new(beside("mfaas-isolation"))
            .env("MFAAS_ISOLATION_SOCKET", path("socket"))
            .env("MFAAS_STATE_DIR", path("state"))
            .env("MFAAS_ISOLATION_GROUP", format!("mfaas-test-node-{}-{number}", std::process::id()))
            .env("MFAAS_READY_FILE", path("ready"))
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while !path("ready").exists() {
            assert!(begin.elapsed() < SOON, "the controller does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { child, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn status(&self) -> Status {
        match ask(&self.socket(), &Request::Status).unwrap() {
            Response::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The next report that fulfils this.
async fn told(server: &Server, what: &str, is: impl Fn(&IsolationReport) -> bool) -> IsolationReport {
    let begin = Instant::now();
    loop {
        let last = server.records().isolated.last().cloned();
        if let Some(report) = last.clone().filter(&is) {
            return report;
        }
        assert!(begin.elapsed() < SOON, "never told: {what}; last: {last:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn wants(server: &Server, revision: u64, settings: IsolationSettings) {
    server.records().isolation = Some(SiteIsolation { protocol: SERVER_PROTOCOL, revision, settings });
}

async fn home(socket: &Path) -> (Server, Home) {
    let (server, signer) = (Server::start().await, Signer::new());
    let mut home = Home::joined(&server, &signer).await;
    home.have_controller(socket.to_owned());
    (server, home)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_site_learns_of_the_machine_and_the_machine_of_the_site() {
    let controller = Controller::start().await;
    let (server, home) = home(&controller.socket()).await;
    wants(&server, 0, IsolationSettings::default());
    let _node = home.start().await;
    let first = told(&server, "the controller", |report| report.controller.is_some()).await;
    let said = first.controller.unwrap();
    assert_eq!((said.mode, said.off, said.revision), (Mode::IdleClass, false, None));
    assert_eq!(said.cores as usize, std::thread::available_parallelism().unwrap().get());

    // Put into force once: a command on the machine holds beside it.
    wants(&server, 7, in_mode(Mode::RealTime));
    let second = told(&server, "revision 7", in_force(7)).await.controller.unwrap();
    assert_eq!(second.mode, Mode::RealTime);
    let used = second.used.expect("the second report says what was used since the first");
    assert!((1_000..60_000).contains(&used.interval_ms), "{used:?}");
    let local = Change { mode: Some(Mode::IdleClass), ..Change::default() };
    ask(&controller.socket(), &Request::Set(local)).unwrap();
    let reports = server.records().isolated.len();
    told(&server, "another report", |_| server.records().isolated.len() > reports + 1).await;
    assert_eq!((controller.status().mode, controller.status().revision), (Mode::IdleClass, Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_machine_cannot_have_is_said_until_the_site_wants_something_else() {
    let controller = Controller::start().await;
    let (server, home) = home(&controller.socket()).await;
    // Not real-time, of which a machine has no more than one controller may take.
    wants(&server, 7, in_mode(Mode::IdleClass));
    let _node = home.start().await;
    until("revision 7", || controller.status().revision == Some(7)).await;
    wants(&server, 8, IsolationSettings { buffer_cores: Some(1_024), ..in_mode(Mode::IdleClass) });
    let refused = told(&server, "a refusal", |report| report.refused.is_some()).await.refused.unwrap();
    assert_eq!((refused.revision, refused.code.as_str()), (8, "MF1103"), "{refused:?}");
    assert!(refused.message.contains("1024 buffer cores"), "{refused:?}");
    assert_eq!(controller.status().revision, Some(7));
    wants(&server, 9, IsolationSettings { off: Some(true), ..in_mode(Mode::IdleClass) });
    let last = told(&server, "revision 9", in_force(9)).await;
    assert!(last.refused.is_none() && last.controller.unwrap().off, "the kill switch of the site");
}

fn in_mode(mode: Mode) -> IsolationSettings {
    IsolationSettings { mode: Some(mode), ..IsolationSettings::default() }
}

fn in_force(revision: u64) -> impl Fn(&IsolationReport) -> bool {
    move |report| report.controller.as_ref().is_some_and(|said| said.revision == Some(revision))
}

/// Neither a controller that is silent nor a server of the release before keeps anything else of the node waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_silent_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    // Whoever connects is taken by nobody.
    let _listener = UnixListener::bind(&socket).unwrap();
    let (server, home) = home(&socket).await;
    let node = home.start().await;
    server.reported("the ordinary report", |_| true).await;
    wants(&server, 7, IsolationSettings { mode: Some(Mode::Blind), ..IsolationSettings::default() });
    let report = told(&server, "that it is silent", |_| true).await;
    assert_eq!((report.controller, report.refused), (None, None));
    let begin = Instant::now();
    node.signal(Signal::TERM);
    assert!(node.ended().await.success());
    assert!(begin.elapsed() < Duration::from_secs(5), "it does not wait for the controller's answer");
}
