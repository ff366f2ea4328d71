//! What a node must not believe.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
    time::Duration,
};

use base64::Engine as _;
use mfaas_attest::{PrivateKey, Statement};
use mfaas_harness::{Program, Stack, package, wait_for};
use mfaas_ident::Digest;
use rustix::process::Signal;

#[test]
fn altered_foreign_and_replayed_documents_are_refused() {
    let stack = Stack::start();
    let source = "pub fn handle(_: &[u8]) -> Vec<u8> {\n    b\"genuine\".to_vec()\n}\n";
    let _ = stack.deploy(package("genuine", source, "").path()).ok();
    a_flipped_byte_in_a_source(&stack);
    a_replayed_serving_set(&stack);
    a_statement_by_another_key(&stack);
    a_flipped_byte_in_an_artifact(&stack);
}

/// Where the blob store keeps a digest.
fn blob(stack: &Stack, digest: &str) -> PathBuf {
    let mut pending = vec![stack.home().join("blobs")];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.display().to_string().replace('/', "").ends_with(digest) {
                return path;
            }
        }
    }
    panic!("no blob {digest}");
}

fn flip(path: &PathBuf) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Restarts the node without anything that it had fetched, and with everything that it must
/// remember.
fn restart_node_without_cache(stack: &Stack) {
    let node = stack.pid(Program::Node);
    let cache = stack.home().join("node/state/blobs");
    assert!(cache.is_dir(), "the node keeps what it fetched elsewhere");
    for entry in fs::read_dir(&cache).unwrap().flatten() {
        if entry.path().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    rustix::process::kill_process(node, Signal::KILL).unwrap();
    stack.wait_for_successor(Program::Node, node);
}

/// Waits until the node has told the server about a code.
fn reported(stack: &Stack, code: &str) {
    let mut sql = stack.sql();
    wait_for(&format!("a report of {code}"), Duration::from_secs(60), || {
        let row = sql.query_opt("SELECT body::text FROM node_reports", &[]).unwrap()?;
        let body: String = row.get(0);
        body.contains(code).then_some(())
    });
}

/// The source changes in the store between upload and build.
fn a_flipped_byte_in_a_source(stack: &Stack) {
    let builder = stack.signal(Program::Builder, Signal::STOP);
    let source = "pub fn handle(_: &[u8]) -> Vec<u8> {\n    Vec::new()\n}\n";
    let bytes = mfaas_harness::pack_directory(package("flipped", source, "").path());
    let id = stack.upload("flipped", bytes);
    let digest: String = stack
        .sql()
        .query_one("SELECT source_digest FROM deployments WHERE id = $1::text::uuid", &[&id])
        .unwrap()
        .get(0);
    flip(&blob(stack, &digest));
    rustix::process::kill_process(builder, Signal::CONT).unwrap();
    let view = stack.settled(&id);
    assert!(view["state"] == "failed" || view["state"] == "refused", "{view}");
    assert_eq!(view["diagnostics"][0]["code"], "MF0601", "{view}");
}

/// An old set comes again under a new row, to a node that has been restarted meanwhile.
fn a_replayed_serving_set(stack: &Stack) {
    let mut sql = stack.sql();
    let seen: i64 = sql.query_one("SELECT max(epoch) FROM serving_sets", &[]).unwrap().get(0);
    assert!(seen >= 2, "one set is not enough for a replay");
    let node = stack.signal(Program::Node, Signal::KILL);
    sql.execute(
        // With the newest generation, so that the signer sees no reason to sign another set.
        "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at) \
         SELECT $1::bigint + 1000, (SELECT generation FROM desired_generation), digest, envelope, issued_at, expires_at \
         FROM serving_sets ORDER BY epoch LIMIT 1",
        &[&seen],
    )
    .unwrap();
    stack.wait_for_successor(Program::Node, node);
    reported(stack, "MF0702");
    let served = wait_for("the node to serve", Duration::from_secs(30), || {
        stack.try_request("POST", &format!("{}/f/default/genuine", stack.ingress()), &[], vec![]).ok()
    });
    assert_eq!(served.text(), "genuine");
    sql.execute("DELETE FROM serving_sets WHERE epoch > $1", &[&seen]).unwrap();
}

/// A version whose statement was signed by a key of nobody, put into the database by somebody who
/// can write there. The node sees it before it has ever seen the genuine one.
fn a_statement_by_another_key(stack: &Stack) {
    let node = stack.signal(Program::Node, Signal::STOP);
    let source = "pub fn handle(_: &[u8]) -> Vec<u8> {\n    b\"forged\".to_vec()\n}\n";
    let upload = mfaas_harness::pack_directory(package("forged", source, "").path());
    let view = stack.settled(&stack.upload("forged", upload));
    assert_eq!(view["state"], "admitted", "{view}");
    let genuine = replace_statement(stack, "forged", |statement| {
        let forged = mfaas_attest::sign(statement, &[&PrivateKey::generate().unwrap()]).unwrap();
        String::from_utf8(forged).unwrap()
    });
    rustix::process::kill_process(node, Signal::CONT).unwrap();
    reported(stack, "MF0602");
    let url = format!("{}/f/default/forged", stack.ingress());
    let answer = stack.request("POST", &url, &[], vec![]);
    assert_eq!((answer.status, answer.code().as_str()), (401, "MF0816"), "{}", answer.text());
    let neighbour = stack.request("POST", &format!("{}/f/default/genuine", stack.ingress()), &[], vec![]);
    assert_eq!(neighbour.text(), "genuine");

    replace_statement(stack, "forged", |_| genuine.clone());
    wait_for("the genuine statement to be served", Duration::from_secs(60), || {
        (stack.request("POST", &url, &[], vec![]).status == 200).then_some(())
    });
}

/// Puts another envelope in the place of a function's statement, waits until a serving set names
/// it, and gives the envelope that stood there.
fn replace_statement(stack: &Stack, function: &str, other: impl Fn(&Statement) -> String) -> String {
    let mut sql = stack.sql();
    let row = sql
        .query_one(
            "SELECT s.envelope, s.artifact FROM versions v JOIN statements s ON s.digest = v.statement \
             WHERE v.function = $1",
            &[&function],
        )
        .unwrap();
    let (envelope, artifact): (String, String) = (row.get(0), row.get(1));
    let document: serde_json::Value = serde_json::from_str(&envelope).unwrap();
    let payload =
        base64::engine::general_purpose::STANDARD.decode(document["payload"].as_str().unwrap()).unwrap();
    let replacement = other(&serde_json::from_slice(&payload).unwrap());
    let digest = Digest::of(replacement.as_bytes()).to_string();
    sql.execute(
        "INSERT INTO statements (digest, artifact, envelope) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        &[&digest, &artifact, &replacement],
    )
    .unwrap();
    sql.execute("UPDATE versions SET statement = $1 WHERE function = $2", &[&digest, &function]).unwrap();
    sql.batch_execute("UPDATE desired_generation SET generation = generation + 1; NOTIFY mfaas_signer")
        .unwrap();
    wait_for("the signer to name it", Duration::from_secs(30), || {
        let query =
            "SELECT (SELECT max(generation) FROM serving_sets) = (SELECT generation FROM desired_generation)";
        sql.query_one(query, &[]).unwrap().get::<_, bool>(0).then_some(())
    });
    envelope
}

fn a_flipped_byte_in_an_artifact(stack: &Stack) {
    let digest: String = stack
        .sql()
        .query_one("SELECT artifact FROM versions WHERE function = 'genuine'", &[])
        .unwrap()
        .get(0);
    flip(&blob(stack, &digest));
    restart_node_without_cache(stack);
    wait_for("the node to refuse it", Duration::from_secs(60), || {
        let answer =
            stack.try_request("POST", &format!("{}/f/default/genuine", stack.ingress()), &[], vec![]).ok()?;
        (answer.status == 401).then_some(())
    });
    reported(stack, "MF0601");
    let run = stack.cli(["verify", "genuine"]).exits(9);
    assert!(run.stderr.contains("MF06") || run.stdout.contains("MF06"), "{run:?}");
}

/// The root goes from one key to two of three holders while everything runs; the node, which has pinned the first key, follows
/// through both lists, again after a restart, and again from the pin alone.
#[test]
fn the_root_is_replaced_under_a_running_node() {
    let stack = Stack::start();
    let source = "pub fn handle(_: &[u8]) -> Vec<u8> {\n    b\"genuine\".to_vec()\n}\n";
    let _ = stack.deploy(package("genuine", source, "").path()).ok();
    let (root, keys) = (stack.home().join("root-key"), stack.home().join("signer/keys"));
    let holders = tempfile::tempdir().unwrap();
    let holder = |name: &str, kind: &str| holders.path().join(format!("{name}.{kind}"));
    let mut prepare = vec!["rotate".into(), "--leaked".into(), "--root-threshold".into(), "2".into()];
    for name in ["ada", "ben", "cleo"] {
        fs::write(holder(name, "passphrase"), format!("the secret of {name}\n")).unwrap();
        fs::set_permissions(holder(name, "passphrase"), fs::Permissions::from_mode(0o600)).unwrap();
        let (key, secret) = (holder(name, "key"), holder(name, "passphrase"));
        signer(&[
            "make-root-key".as_ref(),
            key.as_os_str(),
            "--passphrase-file".as_ref(),
            secret.as_os_str(),
        ]);
        prepare.extend(["--root-pub".into(), holder(name, "pub").into_os_string()]);
    }
    let dirs = ["--root-dir".as_ref(), root.as_os_str(), "--keys-dir".as_ref(), keys.as_os_str()];
    let sign = |name: &str| {
        let (draft, present) = (root.join("keylist.draft.json"), root.join("keylist.json"));
        let (key, secret) = (holder(name, "key"), holder(name, "passphrase"));
        signer(&[
            "sign-keylist".as_ref(),
            draft.as_os_str(),
            "--after".as_ref(),
            present.as_os_str(),
            "--root-key".as_ref(),
            key.as_os_str(),
            "--passphrase-file".as_ref(),
            secret.as_os_str(),
        ]);
    };
    let finish = || signer(&[&["finish-rotation".as_ref()], &dirs[..]].concat());
    let publish = || {
        for name in ["keylist.json", "keylist-1.json", "keylist-2.json"] {
            if root.join(name).exists() {
                fs::copy(root.join(name), stack.home().join(name)).unwrap();
            }
        }
        let signer_process = stack.signal(Program::Signer, Signal::TERM);
        stack.wait_for_successor(Program::Signer, signer_process);
        signer_of(&stack, &["publish-keylist".as_ref(), stack.home().join("keylist.json").as_os_str()]);
        signer_of(&stack, &["resign".as_ref(), stack.home().join("keylist.json").as_os_str()]);
    };

    let prepare: Vec<&std::ffi::OsStr> = prepare.iter().map(std::ffi::OsString::as_os_str).collect();
    signer(&[&prepare[..], &dirs[..]].concat());
    ["ada", "ben"].into_iter().for_each(sign);
    finish();
    publish();
    // What the old online keys signed counts no more, so whoever serves follows the new root.
    follows(&stack, 2);
    // The first root key is of no use any more; the list after that is signed by two others.
    fs::remove_file(root.join("root.key")).unwrap();
    signer(&[&["rotate".as_ref(), "--leaked".as_ref()], &dirs[..]].concat());
    ["cleo", "ben"].into_iter().for_each(sign);
    finish();
    publish();
    follows(&stack, 3);

    a_node_follows_again(&stack);
    // The command line walks the same way from the first root key, and remembers where it was.
    let proof = stack.cli(["verify", "genuine"]).ok();
    assert!(
        proof.stdout.contains("key list 3") || proof.stdout.contains("of key list 3"),
        "{}",
        proof.stdout
    );
    let _ = stack.cli(["audit", "--verify"]).ok();
    let remembered = fs::read_to_string(stack.home().join("key-lists.json")).unwrap();
    assert!(remembered.contains("payloadType"));

    a_list_that_the_root_did_not_sign(&stack);
}

/// After a restart, and from the pin of the first root key alone.
fn a_node_follows_again(stack: &Stack) {
    let node = stack.signal(Program::Node, Signal::KILL);
    stack.wait_for_successor(Program::Node, node);
    follows(stack, 3);
    // As one that was away since the first list, and as a new one that was given the first root key.
    let node = stack.signal(Program::Node, Signal::KILL);
    let state = stack.home().join("node/state");
    let kept: Vec<_> = fs::read_dir(&state).unwrap().flatten().map(|entry| entry.path()).collect();
    let lists = kept.iter().filter(|path| path.display().to_string().contains("key-list-"));
    assert_eq!(lists.map(|path| fs::remove_file(path).unwrap()).count(), 1);
    stack.wait_for_successor(Program::Node, node);
    follows(stack, 3);
}

/// Put into the database by somebody who can write there.
fn a_list_that_the_root_did_not_sign(stack: &Stack) {
    let mut sql = stack.sql();
    sql.execute(
        "INSERT INTO key_lists (version, envelope) SELECT 4, envelope FROM key_lists WHERE version = 1",
        &[],
    )
    .unwrap();
    let node = stack.signal(Program::Node, Signal::KILL);
    stack.wait_for_successor(Program::Node, node);
    reported(stack, "MF0701");
    follows(stack, 3);
    let refused = stack.cli(["verify", "genuine"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    sql.execute("DELETE FROM key_lists WHERE version = 4", &[]).unwrap();
}

/// The function answers, under a set that names that key list.
fn follows(stack: &Stack, version: u32) {
    let state = stack.home().join("node/state");
    let list = format!("\"key_list_version\":{version}");
    wait_for(&format!("the node to follow key list {version}"), Duration::from_secs(90), || {
        let seen = fs::read_to_string(state.join("seen.json")).ok()?;
        (seen.contains(&list) && seen.contains(&format!("\"set_key_list_version\":{version}"))).then_some(())
    });
    wait_for("the function to answer", Duration::from_secs(90), || {
        let url = format!("{}/f/default/genuine", stack.ingress());
        let answer = stack.try_request("POST", &url, &[], vec![]).ok()?;
        (answer.text() == "genuine").then_some(())
    });
}

/// `mfaas-signer` by the holder of a root key or the owner of the directories.
fn signer(arguments: &[&std::ffi::OsStr]) {
    run_signer(arguments, &[]);
}

/// The same with the database and the keys of the installation.
fn signer_of(stack: &Stack, arguments: &[&std::ffi::OsStr]) {
    let keys = stack.home().join("signer/keys");
    run_signer(
        arguments,
        &[("MFAAS_DATABASE_URL", &stack.database()), ("MFAAS_KEYS_DIR", &keys.display().to_string())],
    );
}

fn run_signer(arguments: &[&std::ffi::OsStr], variables: &[(&str, &str)]) {
    let mut command = std::process::Command::new(mfaas_harness::programs().join("mfaas-signer"));
    let output = command.args(arguments).envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Up to release 0.2 the server held the key of the site's authority. The node joins anew by the signer that has it then.
#[test]
fn a_home_of_release_0_2_gives_the_key_of_its_authority_to_the_signer() {
    let stack = Stack::start();
    let (new, old) = (stack.home().join("signer/ca"), stack.home().join("server/tls/ca.key"));
    assert!(!old.exists(), "the server has no key of the authority");
    let key = fs::read(new.join("ca.key")).unwrap();
    let _ = stack.down().ok();
    fs::rename(new.join("ca.key"), &old).unwrap();
    fs::remove_dir_all(&new).unwrap();
    fs::remove_file(stack.home().join("node/state/node.pem")).unwrap();
    stack.up();
    assert_eq!(fs::read(new.join("ca.key")).unwrap(), key);
    let (directory, file) = (fs::metadata(&new).unwrap(), fs::metadata(new.join("ca.key")).unwrap());
    assert_eq!((file.permissions().mode() & 0o777, file.uid()), (0o600, directory.uid()));
    assert!(!old.exists(), "the key is where it was");
    let joined = "SELECT count(*) FROM audit_log WHERE action = 'node.joined' AND actor = 'mfaas-signer'";
    assert_eq!(stack.sql().query_one(joined, &[]).unwrap().get::<_, i64>(0), 2);
}
