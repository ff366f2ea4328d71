//! The root: files with passphrases, several holders, and its replacement, by the commands that people use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mfaas_attest::TrustedRoot;

use crate::world::World;

/// Holders with key files of their own, each behind a passphrase in a file beside it.
struct Holders {
    dir: tempfile::TempDir,
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    text(output)
}

fn failed(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(output));
    text(output)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Holders {
    fn new(world: &World, names: &[&str]) -> Self {
        let holders = Self { dir: tempfile::tempdir().unwrap() };
        for name in names {
            let passphrase = holders.passphrase(name, &format!("the secret of {name}"));
            let key = holders.key(name);
            let made = ["make-root-key", path(&key), "--passphrase-file", path(&passphrase)];
            succeeded(&world.run(&made));
        }
        holders
    }

    fn key(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.key"))
    }

    fn public(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.pub"))
    }

    fn passphrase(&self, name: &str, secret: &str) -> PathBuf {
        let file = self.dir.path().join(format!("{name}.passphrase"));
        private(&file, &format!("{secret}\n"));
        file
    }

    /// Signs the draft as that holder does, on a machine that has both lists.
    fn sign(&self, world: &World, name: &str) -> Output {
        let (key, secret) = (self.key(name), self.dir.path().join(format!("{name}.passphrase")));
        sign(world, &key, &["--passphrase-file", path(&secret)])
    }
}

fn private(file: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(file, content).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn sign(world: &World, key: &Path, more: &[&str]) -> Output {
    let (draft, present) = (world.root().join("keylist.draft.json"), world.root().join("keylist.json"));
    let arguments = ["sign-keylist", path(&draft), "--after", path(&present), "--root-key", path(key)];
    world.run(&[&arguments, more].concat())
}

fn with_dirs(world: &World, arguments: &[&str]) -> Output {
    let (root, keys) = (world.root(), world.keys());
    world.run(&[arguments, &["--root-dir", path(&root), "--keys-dir", path(&keys)]].concat())
}

/// What a node that has pinned the first root key holds after walking through all that is published.
fn followed(world: &mut World) -> TrustedRoot {
    let mut root =
        TrustedRoot::of_file(&std::fs::read_to_string(world.root().join("root.pub")).unwrap()).unwrap();
    for row in world.sql.query("SELECT envelope FROM key_lists ORDER BY version", &[]).unwrap() {
        root = root.follow(row.get::<_, String>(0).as_bytes()).unwrap();
    }
    root
}

#[test]
fn the_root_goes_from_one_key_to_two_of_three_holders() {
    let mut world = World::new();
    let holders = Holders::new(&world, &["ada", "ben", "cleo"]);
    let [ada, ben, cleo] = ["ada", "ben", "cleo"].map(|name| holders.public(name));
    let before = world.key_file("serving-sets.key");
    let root = ["--root-pub", path(&ada), "--root-pub", path(&ben), "--root-pub", path(&cleo)];
    let said = with_dirs(&world, &[&["rotate"], &root[..], &["--root-threshold", "2"]].concat());
    let said = succeeded(&said);
    assert!(said.contains("waits for signatures") && said.contains("takes no passphrase"), "{said}");
    assert_eq!(world.key_file("serving-sets.key"), before, "nothing is in place yet");
    let unfinished = failed(&with_dirs(&world, &["finish-rotation"]));
    assert!(unfinished.contains("0 keys of a root that demands 2"), "{unfinished}");
    failed(&world.publish(&world.root().join("keylist.draft.json")));

    let said = succeeded(&holders.sign(&world, "ada"));
    assert!(said.contains("root: 2 of 3 keys sign (now 1 of 1)"), "what changes is shown: {said}");
    failed(&with_dirs(&world, &["finish-rotation"]));
    succeeded(&holders.sign(&world, "ada"));
    let twice = failed(&with_dirs(&world, &["finish-rotation"]));
    assert!(twice.contains("1 keys of a root that demands 2"), "one holder counts once: {twice}");
    let said = succeeded(&holders.sign(&world, "cleo"));
    assert!(said.contains("enough have signed"), "{said}");
    succeeded(&with_dirs(&world, &["finish-rotation"]));
    assert_ne!(world.key_file("serving-sets.key"), before);
    assert!(world.root().join("keylist-1.json").exists(), "nodes need the list before");
    succeeded(&world.publish(&world.root().join("keylist.json")));
    let now = followed(&mut world);
    assert_eq!((now.version(), now.root().threshold, now.root().keys.len()), (2, 2, 3));

    // The first root key is nobody any more; any two of the three are.
    let said = succeeded(&with_dirs(&world, &["rotate", "--renew"]));
    assert!(said.contains("waits for signatures"), "{said}");
    let stranger = failed(&sign(&world, &world.root().join("root.key"), &[]));
    assert!(stranger.contains("is no key of the present root"), "{stranger}");
    succeeded(&holders.sign(&world, "ben"));
    failed(&with_dirs(&world, &["finish-rotation"]));
    succeeded(&holders.sign(&world, "cleo"));
    succeeded(&with_dirs(&world, &["finish-rotation"]));
    succeeded(&world.publish(&world.root().join("keylist.json")));
    assert_eq!(followed(&mut world).version(), 3);

    // The signer signs with the keys that the lists name.
    let _signer = world.signer();
    let set = world.set_after(0);
    assert_eq!(set.key_list_version, 3);
}

#[test]
fn lists_that_were_not_published_in_time_are_published_in_their_order() {
    let mut world = World::new();
    for _ in 0..3 {
        succeeded(&with_dirs(&world, &["rotate"]));
    }
    std::fs::rename(world.root().join("keylist-3.json"), world.root().join("aside")).unwrap();
    let said = failed(&world.publish(&world.root().join("keylist.json")));
    assert!(said.contains("does not come after 2"), "{said}");
    assert_eq!(world.count("SELECT max(version)::bigint FROM key_lists"), 1, "all of them or none");
    std::fs::rename(world.root().join("aside"), world.root().join("keylist-3.json")).unwrap();
    for _ in 0..2 {
        succeeded(&world.publish(&world.root().join("keylist.json")));
    }
    assert_eq!(world.count("SELECT count(*) FROM key_lists"), 4);
    assert_eq!(followed(&mut world).version(), 4);
}

#[test]
fn a_rotation_that_was_finished_by_half_is_finished_by_the_same_command() {
    let world = World::new();
    let holders = Holders::new(&world, &["ada"]);
    let ada = holders.public("ada");
    succeeded(&with_dirs(&world, &["rotate", "--root-pub", path(&ada)]));
    succeeded(&holders.sign(&world, "ada"));
    // It died between the list and the keys.
    let (draft, list) = (world.root().join("keylist.draft.json"), world.root().join("keylist.json"));
    std::fs::copy(&list, world.root().join("keylist-1.json")).unwrap();
    std::fs::rename(&draft, &list).unwrap();
    let before = world.key_file("statements.key");
    succeeded(&with_dirs(&world, &["finish-rotation"]));
    assert_ne!(world.key_file("statements.key"), before);
    failed(&with_dirs(&world, &["finish-rotation"]));
    let left = std::fs::read_dir(world.keys()).unwrap().count();
    assert_eq!(left, 2, "nothing that was prepared is left");
}

#[test]
fn a_draft_takes_its_own_keys_and_no_others() {
    let world = World::new();
    let holders = Holders::new(&world, &["ada"]);
    let ada = holders.public("ada");
    let draft = world.root().join("keylist.draft.json");
    succeeded(&with_dirs(&world, &["rotate", "--root-pub", path(&ada)]));
    succeeded(&holders.sign(&world, "ada"));
    let signed = std::fs::read(&draft).unwrap();
    succeeded(&with_dirs(&world, &["rotate", "--root-pub", path(&ada)]));
    std::fs::write(&draft, signed).unwrap();
    let said = failed(&with_dirs(&world, &["finish-rotation"]));
    assert!(said.contains("no key that was prepared for key list 2"), "{said}");
}

#[test]
fn key_files_take_passphrases() {
    let world = World::new();
    let root = world.root().join("root.key");
    let dir = tempfile::tempdir().unwrap();
    let (good, wrong) = (dir.path().join("good"), dir.path().join("wrong"));
    private(&good, "correct horse\n");
    private(&wrong, "battery staple\n");
    succeeded(&world.run(&["set-passphrase", path(&root), "--new-passphrase-file", path(&good)]));
    assert!(std::fs::read_to_string(&root).unwrap().starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));

    let said = failed(&with_dirs(&world, &["rotate", "--renew", "--passphrase-file", path(&wrong)]));
    assert!(said.contains("root.key: the passphrase is wrong"), "{said}");
    let said = failed(&with_dirs(&world, &["rotate", "--renew", "--passphrase", "correct horse"]));
    assert!(said.contains("`--passphrase` is not understood"), "never an argument: {said}");
    let open = dir.path().join("open");
    std::fs::write(&open, "correct horse\n").unwrap();
    let said = failed(&with_dirs(&world, &["rotate", "--renew", "--passphrase-file", path(&open)]));
    assert!(said.contains("can be read by others"), "{said}");
    let said = succeeded(&with_dirs(&world, &["rotate", "--renew", "--passphrase-file", path(&good)]));
    assert!(!said.contains("takes no passphrase"), "{said}");

    // Through a descriptor, the way a secret store hands it over.
    let (root_dir, keys_dir) = (world.root(), world.keys());
    let dirs = ["--root-dir", path(&root_dir), "--keys-dir", path(&keys_dir)];
    let arguments = [&["rotate", "--renew", "--passphrase-fd", "0"], &dirs[..]].concat();
    let mut child = world
        .command(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"correct horse\n").unwrap();
    succeeded(&child.wait_with_output().unwrap());
}

/// Whoever sits at a terminal is asked, and what they type is not shown.
#[test]
fn a_passphrase_is_asked_for_at_the_terminal() {
    let world = World::new();
    let root = world.root().join("root.key");
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    private(&good, "correct horse\n");
    succeeded(&world.run(&["set-passphrase", path(&root), "--new-passphrase-file", path(&good)]));
    let program = env!("CARGO_BIN_EXE_mfaas-signer");
    let typed = |secret: &str| {
        let line = format!(
            "{program} rotate --renew --root-dir {} --keys-dir {}",
            world.root().display(),
            world.keys().display()
        );
        // `script` gives the command a terminal of its own; it types when it is asked.
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"root.key: ") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut out, &mut byte).unwrap();
            said.push(byte[0]);
        }
        let mut keyboard = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut keyboard, format!("{secret}\n").as_bytes()).unwrap();
        std::io::Read::read_to_end(&mut out, &mut said).unwrap();
        drop(keyboard);
        (child.wait().unwrap().success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (done, said) = typed("battery staple");
    assert!(!done && said.contains("the passphrase is wrong"), "{said}");
    let (done, said) = typed("correct horse");
    assert!(done && said.contains("key list 2 is written"), "{said}");
    assert!(!said.contains("horse"), "what is typed is not shown: {said}");
    // Without a terminal it is an error that says what to do. `setsid` takes away the one that the tests may have.
    let (root_dir, keys_dir) = (world.root(), world.keys());
    let nobody = Command::new("setsid")
        .args(["--wait", program, "rotate", "--root-dir", path(&root_dir), "--keys-dir", path(&keys_dir)])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = failed(&nobody);
    assert!(said.contains("there is no terminal to ask at: use --passphrase-file"), "{said}");
}

#[test]
fn online_keys_behind_a_passphrase_sign_and_their_successors_take_the_same() {
    let mut world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    private(&secret, "correct horse\n");
    for name in ["statements.key", "serving-sets.key"] {
        let file = world.keys().join(name);
        succeeded(&world.run(&["set-passphrase", path(&file), "--new-passphrase-file", path(&secret)]));
    }
    let encrypted = |world: &World| world.key_file("serving-sets.key").contains("ENCRYPTED");
    assert!(encrypted(&world));
    let before = world.key_file("serving-sets.key");
    succeeded(&with_dirs(&world, &["rotate", "--keys-passphrase-file", path(&secret)]));
    assert!(encrypted(&world) && world.key_file("serving-sets.key") != before);
    succeeded(&world.publish(&world.root().join("keylist.json")));
    let _signer = world.signer_serving(&["--passphrase-file", path(&secret)]);
    assert_eq!(world.set_after(0).key_list_version, 2);
}

#[test]
fn an_installation_can_begin_with_an_encrypted_root_key() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let (root, keys, secret) = (dir.path().join("root"), dir.path().join("keys"), dir.path().join("secret"));
    private(&secret, "correct horse\n");
    let arguments = ["init", "--root-dir", path(&root), "--keys-dir", path(&keys), "--encrypt"];
    let arguments = [&arguments[..], &["--passphrase-file", path(&secret)]].concat();
    for _ in 0..2 {
        succeeded(&world.run(&arguments));
    }
    assert!(std::fs::read_to_string(root.join("root.key")).unwrap().contains("ENCRYPTED"));
    let list = std::fs::read(root.join("keylist.json")).unwrap();
    let pinned = TrustedRoot::of_file(&std::fs::read_to_string(root.join("root.pub")).unwrap()).unwrap();
    assert_eq!(pinned.follow(&list).unwrap().root(), pinned.root(), "the first list names its root");
}
