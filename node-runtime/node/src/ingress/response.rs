//! Bodies of answers: counted among the bytes that answers may hold until they are sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use mfaas_ident::Class;

use super::bounds::TURN_BYTES;
use super::peers::{Budget, Full, Pass, Share};

/// What every request gets.
pub(super) type Response = http::Response<Answer>;

/// Up to here a body is covered by the bound on requests, and needs no budget.
pub(super) const SMALL_BYTES_MAX: usize = 16 << 10;
/// The body of an answer. It is on its way for as long as this, or the bytes that it gave away, are somewhere.
#[derive(Debug, Default)]
pub(super) struct Answer {
    bytes: Bytes,
    pass: Option<Pass>,
}

impl Answer {
    /// The response of a function: everything of `encoded` from `from` on, and nothing is copied.
    pub(super) fn of_function(
        encoded: Vec<u8>,
        from: usize,
        class: Class,
        pass: &mut Option<Pass>,
    ) -> Result<Self, Full> {
        if from >= encoded.len() {
            return Ok(Self::default());
        }
        let share = match pass {
            Some(pass) if encoded.len() > SMALL_BYTES_MAX => {
                let mut share = pass.share(Budget::of_answers(class));
                share.grow_to(encoded.len())?;
                Some(share)
            }
            _ => None,
        };
        let held = ResponseBytes { encoded, from, _pass: pass.take(), _share: share };
        Ok(Self { bytes: Bytes::from_owner(held), pass: None })
    }

    /// Lets the request last until this is sent, unless its bytes see to it already.
    pub(super) fn keep(&mut self, pass: Option<Pass>) {
        self.pass = self.pass.take().or(pass);
    }

    /// As the answer to a question for the head alone.
    pub(super) fn clear(&mut self) {
        self.bytes = Bytes::new();
    }
}

impl From<Bytes> for Answer {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, pass: None }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.bytes.len().min(TURN_BYTES);
        let bytes = self.bytes.split_to(piece);
        if piece == TURN_BYTES {
            // The socket takes it in one system call, in which nobody else of this priority runs on the core.
            std::thread::yield_now();
        }
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// A function's answer on its way out. hyper and h2 keep it until the peer has taken it.
struct ResponseBytes {
    encoded: Vec<u8>,
    from: usize,
    _pass: Option<Pass>,
    _share: Option<Share>,
}

impl AsRef<[u8]> for ResponseBytes {
    fn as_ref(&self) -> &[u8] {
        &self.encoded[self.from..]
    }
}
