#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A file with that text and mode, read.
fn read(text: &str, mode: u32) -> Result<Vec<RedisServer>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    RedisServer::read(file.path()).map_err(|error| error.to_string())
}

const LOCAL: &str = "[redis.main]\nurl = \"redis://u:hidden@127.0.0.1:6379\"\nresources = [\"carts\"]\n";

#[test]
fn servers_and_what_lies_there() {
    for mode in [0o600, 0o640, 0o400] {
        let servers = read(LOCAL, mode).unwrap();
        assert_eq!((servers.len(), servers[0].name.as_str(), servers[0].resources.len()), (1, "main", 1));
        assert!(!format!("{servers:?}").contains("hidden"));
    }
}

#[test]
fn a_file_that_others_can_reach_is_refused() {
    for mode in [0o644, 0o660, 0o602] {
        assert!(read(LOCAL, mode).unwrap_err().contains("chmod"), "{mode:o}");
    }
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    let twice = LOCAL.replace("main", "other");
    for (text, says) in [
        (format!("{LOCAL}{twice}"), "another server"),
        (LOCAL.replace("127.0.0.1", "db.example"), "cleartext"),
        (LOCAL.replace("redis://", "rediss://").replace("6379", "6379/#insecure"), "insecure"),
        (LOCAL.replace("redis://", "postgres://"), "rediss://"),
        (LOCAL.replace("[\"carts\"]", "[]"), "no resources"),
        (LOCAL.replace("carts", "Carts"), "line 3: "),
        ("[redis]\nmain = \"rediss://u:hidden@h\"\n".to_owned(), "line 2: "),
        (LOCAL.replace("[\"carts\"]", "\"redis://u:hidden@h\""), "line 3: "),
        (LOCAL.replace("carts", "redis://u:hidden@h"), "line 3: "),
        (format!("{LOCAL}cleartext = \"redis://u:hidden@h\"\n"), "line 4: "),
        ("redis://u:hidden@h\n".to_owned(), "line 1: "),
        (format!("{LOCAL}ca_file = \"ca.pem\"\n"), "rediss://"),
        (format!("{LOCAL}password = 7\n"), "unknown field"),
        (String::new(), "[redis.NAME]"),
    ] {
        let wrong = read(&text, 0o600).unwrap_err();
        assert!(wrong.contains(says) && !wrong.contains("hidden"), "{wrong}");
    }
    let trusted = format!("{}cleartext = true\n", LOCAL.replace("127.0.0.1", "db.example"));
    assert!(read(&trusted, 0o600).is_ok());
}
