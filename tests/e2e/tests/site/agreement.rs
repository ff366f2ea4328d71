//! `mfaas check` on a developer's machine and the server say the same, word for word; and hostile text
//! is made visible wherever either of them shows it.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use mfaas_harness::{Archive, Run, Stack, checkout, pack_directory, package, programs, wait_for};
use serde_json::Value;
use tar::EntryType;

#[test]
fn check_and_server_agree_and_show_nothing_raw() {
    let stack = Stack::start();
    let mut wrong = String::new();
    for (name, differs) in hostile_folders(&stack).into_iter().chain(archives(&stack)).chain(benign(&stack)) {
        if let Err(reason) = differs {
            writeln!(wrong, "{name}: {reason}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    without_the_exact_toolchain_nothing_is_compiled(&stack);
    hostile_text_through_every_face(&stack);
    what_a_function_says_is_its_own(&stack);
}

type Compared = (String, Result<(), String>);

fn check(stack: &Stack, path: &Path, json: bool) -> Run {
    let home = stack.home().to_str().unwrap();
    let mut arguments = vec!["check", "--home", home, path.to_str().unwrap()];
    if json {
        arguments.push("--json");
    }
    stack.cli(arguments)
}

/// Every folder of tests/hostile that is a package as it stands and does not use up a limit of the
/// sandbox: the same diagnostics, the same ending, and the exit code that the folder wants of `mfaas
/// deploy` if it says one. Two at a time, as the builder takes them.
fn hostile_folders(stack: &Stack) -> Vec<Compared> {
    let mut names: Vec<String> = fs::read_dir(checkout().join("tests/hostile"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir() && !entry.path().join("generate.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| expected_of(name).get("stopped_by").and_then(toml::Value::as_str) != Some("sandbox"))
        .collect();
    names.sort();
    assert!(names.len() >= 150, "only {} cases", names.len());
    let compare = |name: &String| {
        let folder = checkout().join("tests/hostile").join(name);
        let run = check(stack, &folder.join("package"), true);
        let wanted = expected_of(name).get("exit").and_then(toml::Value::as_integer);
        if wanted.is_some_and(|wanted| i64::from(run.code) != wanted) {
            return Err(format!("check ends with {} instead of {wanted:?}: {}", run.code, run.stderr));
        }
        let view = stack.settled(&stack.upload(name, pack_directory(&folder.join("package"))));
        let state = match run.code {
            0 => "admitted",
            3 | 5 => "refused",
            6 => "waiting",
            _ => "no ending of a deploy",
        };
        if view["state"] != state {
            return Err(format!("check ends with {}, the server says {}", run.code, view["state"]));
        }
        same(&view["diagnostics"], &errors(&run.json()))
    };
    let (first, second) = names.split_at(names.len() / 2);
    let all = |names: &[String]| -> Vec<Compared> {
        names.iter().map(|name| (name.clone(), compare(name))).collect()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| all(second));
        [all(first), other.join().unwrap()].concat()
    })
}

fn expected_of(case: &str) -> toml::Table {
    let path = checkout().join("tests/hostile").join(case).join("expect.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Uploads that no directory can hold: the archive itself is checked.
fn archives(stack: &Stack) -> Vec<Compared> {
    let with = |change: fn(&mut Archive)| {
        let mut archive = Archive::with_function();
        change(&mut archive);
        archive.finish()
    };
    let trailing = [Archive::with_function().finish(), b"more".to_vec()].concat();
    let mut truncated = Archive::with_function().finish();
    truncated.truncate(truncated.len() / 2);
    let link: fn(&mut Archive) = |a| {
        a.entry(EntryType::Symlink, "src/passwd", Some("/etc/passwd"), b"");
    };
    let hostile_name: fn(&mut Archive) = |a| {
        a.file("src/\u{1b}[2J\u{202e}.rs", b"");
    };
    let twin: fn(&mut Archive) = |a| {
        a.file("src/LIB.rs", b"");
    };
    let traversal: fn(&mut Archive) = |a| {
        a.file("../escape", b"x");
    };
    let cases = [
        ("link", with(link)),
        ("hostile name", with(hostile_name)),
        ("trailing bytes", trailing),
        ("truncated", truncated),
        ("no manifest", {
            let mut archive = Archive::default();
            archive.file("src/lib.rs", b"");
            archive.finish()
        }),
        ("twins", with(twin)),
        ("traversal", with(traversal)),
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("upload.tar.gz");
    let compare = |bytes: Vec<u8>| {
        fs::write(&file, &bytes).unwrap();
        let run = check(stack, &file, true);
        if run.code != 3 {
            return Err(format!("check ends with {}: {}{}", run.code, run.stdout, run.stderr));
        }
        let view = stack.settled(&stack.upload("archived", bytes));
        visible("an archive's refusal", &run.stdout);
        same(&view["diagnostics"], &errors(&run.json()))
    };
    cases.into_iter().map(|(name, bytes)| (format!("archive: {name}"), compare(bytes))).collect()
}

/// Admitted programs: the same warnings, and the very same image.
fn benign(stack: &Stack) -> Vec<Compared> {
    let warned = package(
        "warned",
        "fn unused(left: u32) -> u32 { left }\npub fn handle(request: &[u8]) -> Vec<u8> {\n    let twice = 2;\n    request.to_vec()\n}\n",
        "",
    );
    let derived = package(
        "derived",
        "#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]\nstruct Item { name: String, count: u32 }\n\
         pub fn handle(request: &[u8]) -> Vec<u8> {\n    match serde_json::from_slice::<Vec<Item>>(request) {\n        \
         Ok(items) => serde_json::to_vec(&items).unwrap_or_default(),\n        Err(error) => error.to_string().into_bytes(),\n    }\n}\n",
        "[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"\n",
    );
    let hello = checkout().join("examples/hello");
    let programs = [("warned", warned.path()), ("derived", derived.path()), ("hello", hello.as_path())];
    programs.map(|(name, path)| (format!("benign: {name}"), same_image(stack, name, path))).into()
}

fn same_image(stack: &Stack, name: &str, path: &Path) -> Result<(), String> {
    let checked = check(stack, path, true).ok().json();
    let deployed = stack.cli(["deploy", "--json", path.to_str().unwrap()]).ok().json();
    same(&deployed["diagnostics"], &checked["diagnostics"])?;
    if name == "warned" && checked["diagnostics"].as_array().is_none_or(Vec::is_empty) {
        return Err(format!("no warning in {checked}"));
    }
    let versions = stack.api("GET", &format!("/v1/functions/{name}/versions"), vec![]).json();
    let (server, here) = (&versions["items"][0]["artifact_digest"], &checked["artifact"]["digest"]);
    if server != here || !here.is_string() {
        return Err(format!("the server made {server}, check {here}"));
    }
    Ok(())
}

fn errors(report: &Value) -> Value {
    let all = report["diagnostics"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|diagnostic| diagnostic["level"] == "error").collect()
}

/// Code, level, layer, message, hint, span and drawing: all of it.
fn same(server: &Value, here: &Value) -> Result<(), String> {
    if server == here && server.is_array() {
        return Ok(());
    }
    Err(format!("the server says\n{server:#}\nand check says\n{here:#}"))
}

/// Another toolchain than the cache's, or none: said, not run, and no pass.
fn without_the_exact_toolchain_nothing_is_compiled(stack: &Stack) {
    let good = package("exact", "pub fn handle(request: &[u8]) -> Vec<u8> { request.to_vec() }\n", "");
    let other = tempfile::tempdir().unwrap();
    // A toolchain directory that is what its name says, and not the one that built the cache.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let other_toolchain = other.path().join(empty);
    fs::create_dir(&other_toolchain).unwrap();
    fs::write(other_toolchain.join("manifest.sha256"), "").unwrap();
    let deps = current_of(stack, "deps");
    let nowhere = other.path().join("nowhere");
    for (toolchain, words) in [(other_toolchain, "it was built by toolchain"), (nowhere, "nowhere")] {
        let run = stack.cli_with(
            ["check", "--json", good.path().to_str().unwrap()],
            &[
                ("MFAAS_TOOLCHAIN_DIR", toolchain.to_str().unwrap()),
                ("MFAAS_DEPS_DIR", deps.to_str().unwrap()),
            ],
        );
        let report = run.exits(1).json();
        assert_eq!(report["outcome"], "incomplete", "{report}");
        let stages: Vec<(&str, &str)> = report["stages"].as_array().unwrap().iter().map(stage).collect();
        assert_eq!(stages[..2], [("unpack", "passed"), ("audit", "passed")], "{report}");
        assert!(stages[2..].len() == 6 && stages[2..].iter().all(|(_, outcome)| *outcome == "not_run"));
        assert!(report["stages"][4]["reason"].as_str().unwrap().contains(words), "{report}");
        assert_eq!(report["artifact"], Value::Null);
    }
}

fn stage(stage: &Value) -> (&str, &str) {
    (stage["stage"].as_str().unwrap(), stage["outcome"].as_str().unwrap())
}

/// The source spells the characters in another way than the sanitiser does, so that what is found is the
/// sanitiser's.
const COMPILE_ERROR: &str = "pub fn handle(_: &[u8]) -> Vec<u8> { 1 }\n\
    compile_error!(\"\\x1b[31m red \\x1b]8;;http://example.org\\x07link\\x1b]8;;\\x07 \\x1b[2K\\rpassed \\u{009B}1m \
    \\u{202E}txet\\u{202C} \\u{2066}x\\u{2069} zero\\u{200B}width\\u{FEFF} \\u{0E0041}\\u{0E007F} end\");\n";
/// As our sanitiser shows it, and as rustc's own drawing already does.
const SHOWN: [(&str, &str); 11] = [
    ("\\u{1b}[31m", "\u{241b}[31m"),
    ("\\u{1b}]8;;", "\u{241b}]8;;"),
    ("\\u{7}link", "\u{2407}link"),
    ("\\u{d}passed", "\u{240d}passed"),
    ("\\u{9b}1m", "\\u{9b}1m"),
    ("\\u{202e}txet", "\u{fffd}txet"),
    ("\\u{202c}", "\u{fffd}"),
    ("\\u{2066}x\\u{2069}", "\u{fffd}x\u{fffd}"),
    ("\\u{200b}", "\\u{200b}"),
    ("\\u{feff}", "\\u{feff}"),
    ("\\u{e0041}\\u{e007f}", "\\u{e0041}\\u{e007f}"),
];

fn hostile_text_through_every_face(stack: &Stack) {
    let package = package("faces", COMPILE_ERROR, "");
    let path = package.path().to_str().unwrap();
    let text = check(stack, package.path(), false).exits(5);
    let json = check(stack, package.path(), true).exits(5);
    let deployed = stack.cli(["deploy", path]).exits(5);
    let deployed_json = stack.cli(["deploy", "--json", path]).exits(5);
    let id = deployed_json.json()["id"].as_str().unwrap().to_owned();
    let rest = stack.api("GET", &format!("/v1/deployments/{id}"), vec![]).text();
    let events = stack.api("GET", &format!("/v1/deployments/{id}/events"), vec![]).text();
    let builder = Command::new(programs().join("mfaas-builder"))
        .args(["check", path])
        .env("HOME", stack.home())
        .env("MFAAS_TOOLCHAIN_DIR", current_of(stack, "toolchains"))
        .env("MFAAS_DEPS_DIR", current_of(stack, "deps"))
        .output()
        .unwrap();
    let faces = [
        ("check as text", format!("{}{}", text.stdout, text.stderr)),
        ("check --json", json.stdout),
        ("deploy as text", format!("{}{}", deployed.stdout, deployed.stderr)),
        ("deploy --json", deployed_json.stdout),
        ("REST", rest),
        ("events", events),
        ("console", console_page(stack, &format!("/deployments/{id}"))),
        ("mfaas-builder check", String::from_utf8(builder.stdout).unwrap()),
    ];
    for (face, text) in &faces {
        visible(face, text);
        // JSON doubles the backslash.
        let plain = text.replace("\\\\u{", "\\u{");
        for (ours, rustcs) in SHOWN {
            assert!(plain.contains(ours) || plain.contains(rustcs), "{face} does not show {ours}:\n{text}");
        }
    }
    hostile_key(stack);
}

/// A key of Cargo.toml, which our own message repeats.
fn hostile_key(stack: &Stack) {
    let manifest = "[package.metadata.mfaas]\n\"\\u001B[2J\\u202E\" = 1\n";
    let package = package("key", "pub fn handle(_: &[u8]) -> Vec<u8> { vec![] }\n", manifest);
    let run = check(stack, package.path(), false).exits(3);
    visible("a key", &run.stderr);
    assert!(run.stderr.contains("MF0202") && run.stderr.contains("\\u{1b}[2J\\u{202e}"), "{}", run.stderr);
}

fn current_of(stack: &Stack, kind: &str) -> PathBuf {
    let directory = stack.home().join(kind);
    let text = fs::read_to_string(directory.join("current.json")).unwrap();
    let current: Value = serde_json::from_str(&text).unwrap();
    directory.join(current["id"].as_str().unwrap())
}

/// Nothing but line breaks and tabs that the sanitiser would have to show.
fn visible(face: &str, text: &str) {
    for c in text.chars().filter(|c| !matches!(c, '\n' | '\t')) {
        let shown = mfaas_ident::sanitise_line(&c.to_string(), 20);
        assert!(shown == c.to_string(), "{face} shows {shown} raw:\n{text:?}");
    }
}

/// A page of the console for whoever signs in with the first admin's token. Plain HTTP by hand: the
/// cookie comes with a redirect, which a client follows.
fn console_page(stack: &Stack, path: &str) -> String {
    let form = format!("token={}", stack.token());
    let signed_in = exchange(
        stack,
        "POST /sign-in",
        "content-type: application/x-www-form-urlencoded\r\nsec-fetch-site: same-origin\r\n",
        &form,
    );
    let cookie = signed_in.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_else(|| {
        panic!("no cookie: {signed_in}");
    });
    let cookie = cookie.split(';').next().unwrap();
    let answer = exchange(stack, &format!("GET {path}"), &format!("cookie: {cookie}\r\n"), "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, page) = answer.split_once("\r\n\r\n").unwrap();
    page.to_owned()
}

fn exchange(stack: &Stack, request: &str, headers: &str, body: &str) -> String {
    let server = stack.server();
    let host = server.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {host}\r\norigin: {server}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const LOUD: &str = "pub fn handle(_: &[u8]) -> Vec<u8> {\n    println!(\"log \\x1b[31m \\u{202E}red\");\n    \
                    b\"\\x1b]0;title\\x07 answer\".to_vec()\n}\n";

/// A program that reads an answer gets its bytes; a terminal gets none that it would obey. Log lines
/// are made visible for both.
fn what_a_function_says_is_its_own(stack: &Stack) {
    let package = package("loud", LOUD, "");
    let _ = stack.deploy(package.path()).ok();
    let piped = stack.invoke("loud", "x").ok();
    assert_eq!(piped.stdout, "\u{1b}]0;title\u{7} answer");
    let seen = on_a_terminal(stack, &["invoke", "loud", "--data", "x"]);
    assert!(seen.contains("\\u{1b}]0;title\\u{7} answer"), "{seen:?}");
    visible("invoke on a terminal", &seen.replace('\r', ""));
    let json = stack.cli(["invoke", "loud", "--data", "x", "--json"]).ok();
    visible("invoke --json", &json.stdout);
    assert_eq!(json.json()["body"], "\u{1b}]0;title\u{7} answer", "escaped for the eye, whole for a parser");
    let logs = wait_for("the log line", Duration::from_secs(30), || {
        let run = stack.cli(["logs", "loud"]).ok();
        run.stdout.contains("log ").then_some(run.stdout)
    });
    let logs_json = stack.cli(["logs", "loud", "--json"]).ok().stdout;
    for (face, text) in [("logs", &logs), ("logs --json", &logs_json)] {
        visible(face, text);
        let plain = text.replace("\\\\u{", "\\u{");
        assert!(plain.contains("\\u{1b}[31m \\u{202e}red"), "{face}: {text}");
    }
}

/// Runs `mfaas` with a terminal as its standard output, and answers what reached the terminal.
fn on_a_terminal(stack: &Stack, arguments: &[&str]) -> String {
    let controller = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
    rustix::pty::grantpt(&controller).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
    let terminal = fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let status = Command::new(programs().join("mfaas"))
        .args(arguments)
        .env("MFAAS_PROFILE_FILE", stack.home().join("profile.toml"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::from(terminal))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    // The answer is a few bytes, so one read has it; a terminal without a writer is an error.
    let mut bytes = [0; 4096];
    let length = rustix::io::read(&controller, &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}
