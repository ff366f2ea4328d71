//! `mfaas dev`: a package is deployed again when its files change, called without a token, and what a deployment would refuse is told.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mfaas_harness::{Package, Stack, package, programs, wait_for};
use rustix::process::{Pid, Signal, kill_process};

const GREETS: &str = "pub fn handle(_request: &[u8]) -> Vec<u8> {\n    b\"one\".to_vec()\n}\n";

const COUNTS: &str = "\
use mfaas::{Binding, Error, Kv, Write};

pub struct Counts;
impl Binding for Counts {
    const NAME: &'static str = \"counts\";
    type Value = i64;
}

pub async fn handle(_request: String, counts: Kv<Counts, Write>) -> Result<String, Error> {
    mfaas::log!(\"counted\");
    let count = counts.increment(\"calls\", 1).await?;
    Ok(format!(\"count {count}\"))
}
";

const BINDS: &str = "\
[package.metadata.mfaas]\naccess = \"token\"\n\n\
[package.metadata.mfaas.bindings.counts]\nkind = \"kv\"\naccess = \"write\"\n\n\
[dependencies]\nmfaas = \"0.1\"\n";

/// The command at work.
struct Dev {
    child: Child,
    /// What it said on both streams.
    said: Arc<Mutex<Vec<String>>>,
}

impl Dev {
    fn start(stack: &Stack, packages: &[&Package]) -> Self {
        Self::start_with(stack, packages, &[])
    }

    fn start_with(stack: &Stack, packages: &[&Package], options: &[&str]) -> Self {
        let mut child = Command::new(programs().join("mfaas"))
            .args(["dev", "--port", "0"])
            .args(options)
            .args(packages.iter().map(|package| package.path()))
            .env("MFAAS_HOME", stack.home())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        read_lines(out, &said);
        read_lines(err, &said);
        Self { child, said }
    }

    /// The first line from `from` on that holds the text, and the number of the one behind it.
    fn line(&self, from: usize, text: &str) -> (String, usize) {
        wait_for(&format!("`{text}`"), Duration::from_secs(120), || {
            let said = self.said.lock().unwrap();
            let at = said.iter().skip(from).position(|line| line.contains(text))? + from;
            Some((said[at].clone(), at + 1))
        })
    }

    fn url(&self, function: &str) -> String {
        let (line, _) = self.line(0, &format!("{function} is called at http://"));
        line[line.find("http://").unwrap()..].to_owned()
    }

    /// Ctrl-C; it ends with 0.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let status = wait_for("the end of dev", Duration::from_secs(60), || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}: {:?}", self.said.lock().unwrap());
    }
}

impl Drop for Dev {
    #[expect(clippy::print_stderr, reason = "whoever looks why a test has failed wants to know")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("dev said:\n{}", self.said.lock().unwrap().join("\n"));
        }
    }
}

fn read_lines(stream: impl std::io::Read + Send + 'static, into: &Arc<Mutex<Vec<String>>>) {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            into.lock().unwrap().push(line);
        }
    });
}

#[test]
fn a_saved_file_is_the_next_answer() {
    let stack = Stack::start_with(&[]);
    let (greets, counts) = (package("greets", GREETS, ""), package("counts", COUNTS, BINDS));
    let dev = Dev::start(&stack, &[&greets, &counts]);
    let (greets_url, counts_url) = (dev.url("greets"), dev.url("counts"));
    let (_, at) = dev.line(0, "default may now write kv `counts`");
    let _ = dev.line(0, "greets version 1 is served");
    let (_, mut at) = dev.line(at, "counts version 1 is served");

    let call = |url: &str, headers: &[(&str, &str)]| stack.request("POST", url, headers, vec![]);
    assert_eq!(call(&greets_url, &[]).text(), "one", "the tenant's own, and nobody brought a token");
    assert_eq!(call(&counts_url, &[]).text(), "count 1", "also where a token has to name it");
    assert_eq!(call(&counts_url, &[("origin", "https://other.example")]).status, 403);
    let (line, _) = dev.line(at, "POST /f/default/counts: status 200");
    assert!(line.contains("version 1") && line.contains("run;dur="), "{line}");
    let (_, _) = dev.line(at, "counted");
    assert_eq!(call(&greets_url.replace("greets", "nobody"), &[]).status, 502);

    greets.set_source(&GREETS.replace("one", "two"));
    (_, at) = dev.line(at, "greets version 2 is served");
    assert_eq!(call(&greets_url, &[]).text(), "two");

    greets.set_source("pub fn handle(_request: &[u8]) -> Vec<u8> {\n    std::fs::read(\"/etc/passwd\").unwrap_or_default()\n}\n");
    (_, at) = dev.line(at, "error[MF0307]");
    (_, at) = dev.line(at, "the version of greets that was served before goes on answering");
    assert_eq!(call(&greets_url, &[]).text(), "two");

    greets.set_source(&GREETS.replace("one", "three"));
    let _ = dev.line(at, "greets version 3 is served");
    assert_eq!(call(&greets_url, &[]).text(), "three");
    assert_eq!(call(&counts_url, &[]).text(), "count 2", "only what changed was deployed again");
    dev.stop();
    // Who cannot open what runs must not stop it as their own.
    let stranger = stack.cli_with(
        ["--profile-file", "/nonexistent/profile.toml", "dev", greets.path().to_str().unwrap()],
        &[("MFAAS_HOME", stack.home().to_str().unwrap())],
    );
    assert!(
        stranger.code != 0 && stranger.stderr.contains("runs, and no token of yours opens it"),
        "{stranger:?}"
    );
    assert_eq!(
        stack.invoke("greets", "").ok().stdout,
        "three",
        "an installation that ran before goes on running"
    );
    stack.invariants();
}

#[test]
fn an_installation_that_was_started_stops_at_the_end() {
    let stack = Stack::start_with(&[]);
    let _ = stack.down().ok();
    let greets = package("greets", GREETS, "");
    let dev = Dev::start(&stack, &[&greets]);
    let _ = dev.line(0, "no installation answers: starting one");
    let _ = dev.line(0, "greets version 1 is served");
    assert_eq!(stack.request("POST", &dev.url("greets"), &[], vec![]).text(), "one");
    let server = stack.server();
    assert_eq!(stack.request("GET", &server, &[], vec![]).status, 200);
    dev.stop();
    assert!(stack.try_request("GET", &server, &[], vec![]).is_err(), "it does not run any more");
    let left = stack.down().ok();
    assert!(left.stdout.contains("no process, socket or mount is left"), "{}", left.stdout);
}

const READS: &str = "\
use mfaas::{Asset, Binding};

pub struct Words;
impl Binding for Words {
    const NAME: &'static str = \"words\";
    type Value = ();
}

pub fn handle(words: Asset<Words>) -> String {
    String::from_utf8_lossy(&words).to_uppercase()
}
";

const BINDS_WORDS: &str = "\
[package.metadata.mfaas.bindings.words]\nkind = \"asset\"\n\n\
[dependencies]\nmfaas = \"0.1\"\n";

/// What a package reads is a file of its resource's name.
#[test]
fn an_asset_is_a_file_of_its_name() {
    let stack = Stack::start_with(&[]);
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("words"), "cat and dog").unwrap();
    let reads = package("reads", READS, BINDS_WORDS);
    let dev = Dev::start_with(&stack, &[&reads], &["--assets", files.path().to_str().unwrap()]);
    let url = dev.url("reads");
    let _ = dev.line(0, "default may now read asset `words`");
    let _ = dev.line(0, "reads version 1 is served");
    assert_eq!(stack.request("POST", &url, &[], Vec::new()).text(), "CAT AND DOG");
    dev.stop();
}
