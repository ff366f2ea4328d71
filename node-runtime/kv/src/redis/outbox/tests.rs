#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn caller() -> Caller {
    Caller {
        call: Uuid::from_u128(7),
        tenant: "acme".parse().unwrap(),
        function: "book".parse().unwrap(),
        version: VersionNumber::FIRST,
        trace: Some("0-1".to_owned()),
    }
}

/// The fields of an item, as the server gives them.
fn item(changes: &[(&str, &[u8])]) -> Vec<Vec<u8>> {
    let of_caller = fields(&caller()).into_iter().flat_map(|(name, value)| [name.into(), value.into_bytes()]);
    let of_changes = changes.iter().flat_map(|(name, value)| [name.as_bytes().to_vec(), value.to_vec()]);
    of_caller.chain(of_changes).collect()
}

#[test]
fn records_come_back_as_they_were_written() {
    let changes: [(&str, &[u8]); 2] = [("put:carts", b"\0\0\0\x05a:b"), ("delete:carts", b"\0\0\0\0call")];
    let records = decode("1700000000123-4", &item(&changes)).unwrap();
    let record = |operation, key: &[u8], bytes| AuditRecord {
        caller: caller(),
        at_ms: 1_700_000_000_123,
        resource: "carts".parse().unwrap(),
        key: key.to_vec(),
        operation,
        bytes,
    };
    assert_eq!(records, [record("put", b"a:b", 5), record("delete", b"call", 0)]);
}

#[test]
fn what_is_no_record_is_none() {
    for change in [("put:Carts", &b"\0\0\0\x05a"[..]), ("look:carts", b"\0\0\0\x05a"), ("put:carts", b"\0\0")]
    {
        assert_eq!(decode("1-1", &item(&[change])), None, "{change:?}");
    }
    assert_eq!(decode("now", &item(&[])), None);
    assert_eq!(decode("1-1", &item(&[])[2..]), None, "of no call");
    assert_eq!(decode("1-1", &item(&[])[1..]), None);
}
