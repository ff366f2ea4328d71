use mfaas_abi::{OperationKind, Record, Records, with_binding};

use super::{ASKED_OF_MAX, Declined, Kind, PLACES};

const GET: u8 = 1;
const PUT: u8 = 2;

/// What the image in `slot` asks that begins these operations: the kind, the binding, and what it asks of that.
fn kind(slot: u32, operations: &[(OperationKind, u32, &[u8])]) -> Kind {
    let mut list = Vec::new();
    for (id, (kind, binding, request)) in operations.iter().enumerate() {
        let bytes = with_binding(*binding, request);
        Record { id: id as u32, code: *kind as u32, bytes: &bytes }.append_to(&mut list);
    }
    Kind::of(slot, Records::decode(&list).expect("a list"))
}

fn data(binding: u32, request: &[u8]) -> (OperationKind, u32, &[u8]) {
    (OperationKind::Data, binding, request)
}

/// Asks `count` times of which the node declines each; how many it was asked.
fn asked(declined: &mut Declined, kind: Kind, count: usize) -> usize {
    let is_asked = |_: &usize| {
        let is_asked = !declined.skips(kind);
        if is_asked {
            declined.note(kind, true);
        }
        is_asked
    };
    (0..count).filter(is_asked).count()
}

#[test]
fn what_is_always_declined_is_asked_ever_more_rarely_but_for_ever() {
    let mut declined = Declined::none();
    let put = kind(3, &[data(0, &[PUT])]);
    // The first two at once, then after 1, 3 and 7, then one of sixteen.
    assert_eq!(asked(&mut declined, put, 2), 2);
    assert_eq!(asked(&mut declined, put, 2 + 4 + 8), 3);
    assert_eq!(asked(&mut declined, put, 100 * usize::from(ASKED_OF_MAX)), 100);
}

/// A node answers so much in a row, then a call is put aside once: what it asks next is answered again.
#[test]
fn declined_once_is_asked_again_at_once() {
    let mut declined = Declined::none();
    let get = kind(3, &[data(0, &[GET])]);
    for _ in 0..100 {
        declined.note(get, true);
        assert!(!declined.skips(get));
        declined.note(get, false);
        assert!(!declined.skips(get));
    }
}

#[test]
fn an_answer_ends_it() {
    let mut declined = Declined::none();
    let call = kind(3, &[(OperationKind::Call, 1, b"{}")]);
    asked(&mut declined, call, 100);
    while declined.skips(call) {}
    declined.note(call, false);
    assert_eq!(asked(&mut declined, call, 2), 2, "as if it had never been declined");
}

#[test]
fn other_questions_are_asked_meanwhile() {
    let mut declined = Declined::none();
    let put = kind(3, &[data(0, &[PUT])]);
    asked(&mut declined, put, 100);
    assert!(declined.skips(put));
    let others = [
        ("another image's", kind(4, &[data(0, &[PUT])])),
        ("another image's of the same place", kind(3 + PLACES as u32, &[data(0, &[PUT])])),
        ("another operation", kind(3, &[data(0, &[GET])])),
        ("of another binding", kind(3, &[data(1, &[PUT])])),
        ("more than one", kind(3, &[data(0, &[PUT]), data(0, &[PUT])])),
        ("of another kind", kind(3, &[(OperationKind::Part, 0, &[PUT])])),
        ("nothing", kind(3, &[])),
    ];
    for (what, other) in others {
        assert!(!declined.skips(other), "{what}");
    }
    assert!(declined.skips(kind(3, &[data(0, &[PUT, 7])])), "the twin: with other bytes");
}

/// What a function is asked is its own: calls of it are one kind, whatever they begin with.
#[test]
fn calls_of_a_function_are_one_kind() {
    let call = |body| kind(3, &[(OperationKind::Call, 1, body)]);
    assert_eq!(call(&b"{}"[..]), call(b"[1]"));
    assert_eq!(call(b""), call(b"[1]"));
}
