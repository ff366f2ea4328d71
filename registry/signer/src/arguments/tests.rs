#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::Arguments;

fn arguments(line: &str) -> Arguments {
    Arguments::new(line.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn options_come_in_any_order() {
    for line in ["--renew --root-dir /r list.json", "list.json --root-dir /r --renew"] {
        let mut given = arguments(line);
        assert!(given.switch("--renew") && !given.switch("--renew"));
        assert_eq!(given.path("--root-dir").unwrap().to_str(), Some("/r"));
        assert_eq!(given.file("FILE").unwrap().to_str(), Some("list.json"));
        given.end().unwrap();
    }
    let mut given = arguments("--root-pub a --root-pub b");
    assert_eq!(given.values("--root-pub").unwrap(), ["a", "b"]);
}

#[test]
fn what_is_missing_or_not_known_is_an_error() {
    assert!(arguments("--root-dir").value("--root-dir").is_err());
    assert!(arguments("--root-dir --renew").value("--root-dir").is_err(), "an option is no value");
    assert!(arguments("").path("--root-dir").is_err());
    assert!(arguments("--renew").file("FILE").is_err());
    assert!(arguments("--passphrase hunter2").end().is_err());
    let mut twice = arguments("--root-dir /a --root-dir /b");
    assert!(twice.path("--root-dir").is_ok() && twice.end().is_err());
}
