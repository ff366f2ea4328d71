#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;

use super::*;

fn caller() -> Caller {
    Caller {
        id: Uuid::from_u128(7),
        tenant: TenantName::parse("acme").unwrap(),
        function: FunctionName::parse("shop").unwrap(),
        version: VersionNumber::new(3).unwrap(),
        trace: Some("00-x".to_owned()),
    }
}

fn to_broker(request: Vec<u8>) -> Vec<ToBroker> {
    let resource = ResourceName::parse("orders").unwrap();
    vec![
        ToBroker::Begin { call: 1, caller: caller(), parent: Some(2) },
        ToBroker::Operate {
            call: u64::MAX,
            id: 9,
            resource,
            kind: ResourceKind::Kv,
            access: DataAccess::Write,
            secrets: vec![ResourceName::parse("key").unwrap()],
            request,
        },
        ToBroker::Commit { call: 2 },
        ToBroker::Forget { call: 3 },
        ToBroker::Settle { call: 4, caller: Caller { trace: None, ..caller() } },
    ]
}

proptest! {
    #[test]
    fn messages_come_back_as_they_went(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for message in to_broker(bytes.clone()) {
            let frame = encode(&message).unwrap();
            let (head, rest) = frame.split_first_chunk::<HEAD_BYTES>().unwrap();
            prop_assert_eq!(message_bytes(*head).unwrap(), rest.len());
            prop_assert_eq!(decode::<ToBroker>(rest).unwrap(), message);
            prop_assert!(decode::<ToBroker>(&[rest, &[0]].concat()).is_err(), "something behind it");
        }
        let outcome = FromBroker::Outcome { call: 1, id: 2, code: 1202, bytes, needs_commit: true };
        prop_assert_eq!(decode::<FromBroker>(&encode(&outcome).unwrap()[HEAD_BYTES..]).unwrap(), outcome);
    }

    #[test]
    fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<ToBroker>(&bytes);
        let _ = decode::<FromBroker>(&bytes);
    }
}

#[test]
fn names_are_checked_where_they_are_read() {
    let message = ToBroker::Begin { call: 1, caller: caller(), parent: None };
    let mut frame = encode(&message).unwrap();
    let at = frame.windows(4).position(|bytes| bytes == b"acme").unwrap();
    frame[at] = b'/';
    assert!(decode::<ToBroker>(&frame[HEAD_BYTES..]).is_err());
}

#[test]
fn a_head_that_announces_too_much_is_refused() {
    assert!(message_bytes((MESSAGE_BYTES_MAX as u32).to_le_bytes()).is_ok());
    assert!(matches!(
        message_bytes((MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes()),
        Err(ProtocolError::TooLong(_))
    ));
}
