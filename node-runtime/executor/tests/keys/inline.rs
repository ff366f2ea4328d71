//! Calls within calls, under keys: what is called has no more rights than what called it.

use mfaas_abi::{DONE, Record, Status};
use mfaas_executor::{Inline, NoAnswer, RequestHead};

use crate::attacks;
use crate::fixture::{Fixture, HOSTILE, TENANT, request};

const FRESH: &str = "7 0 true 1 3 1 0";

/// What a call within a call came to.
type Called = Result<String, NoAnswer>;

impl Fixture {
    /// The waiter, which calls others one after the other while it waits: how it ended, and what those came to.
    fn calls(&mut self, others: &[(u32, &[u8])]) -> (Status, Vec<Called>) {
        let (limits, came) = (self.limits, std::cell::RefCell::new(Vec::new()));
        let ask = |_: &[u8], place: &mut [u8], inline: &mut Inline<'_>| {
            let frame = request(b"");
            let head = RequestHead::read(&frame[..frame.len() - size_of::<u32>()]).expect("its head");
            for (slot, body) in others {
                let answered = inline.call(*slot, &head, body, limits);
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                came.borrow_mut().push(answered.map(|answer| text(answer.body)));
            }
            let mut told = Vec::new();
            Record { id: 1, code: DONE, bytes: b"" }.append_to(&mut told);
            place[..told.len()].copy_from_slice(&told);
            Some(told.len())
        };
        let answer = self.waiter(&ask);
        if answer.status == Status::Ok {
            assert_eq!(answer.body.get(16), Some(&1), "its memory is whole: {answer:?}");
        }
        (answer.status, came.into_inner())
    }
}

pub(crate) fn others_are_called(fixture: &mut Fixture) {
    let fresh: Called = Ok(FRESH.to_owned());
    for _ in 0..20 {
        let came = fixture.calls(&[(TENANT, b"count"), (HOSTILE, b"-"), (TENANT, b"count")]);
        assert_eq!(came, (Status::Ok, vec![fresh.clone(), Ok("!".to_owned()), fresh.clone()]));
        fixture.lives("calls within calls");
    }
    for (body, why) in
        [("panic", NoAnswer::Declined), ("overflow", NoAnswer::Declined), ("print", NoAnswer::Apart)]
    {
        let came = fixture.calls(&[(TENANT, body.as_bytes()), (TENANT, b"count")]);
        assert_eq!(came, (Status::Ok, vec![Err(why), fresh.clone()]), "{body}");
    }
}

/// Whoever reaches for the worker's memory ends the call that called it, and the worker lives.
pub(crate) fn memory_of_the_worker(fixture: &mut Fixture) {
    for what in *b"wxyz" {
        let body = [&[what][..], &attacks::secret().to_le_bytes()].concat();
        let came = fixture.calls(&[(HOSTILE, &body)]);
        assert_eq!(came, (Status::Fault, vec![Err(NoAnswer::Declined)]), "{}", char::from(what));
        fixture.lives("a fault within a call");
    }
    assert!(attacks::is_intact());
}
