//! Servers and secrets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mfaas_abi::frame::{FrameError, Headers, RequestFrame, encode_checked_response, encode_request};
use mfaas_abi::limits::{HTTP_BODY_BYTES_MAX, HTTP_PIECE_BYTES_MAX};
use mfaas_abi::{DONE, HttpReply, HttpRequest};
use mfaas_shim::Outcome;

use crate::{Access, Binding, Http, IntoResponse, Request, Response, Secret};

/// Where the places of servers begin.
pub(super) const SERVERS: u32 = 3 << 30;

/// The codes of a limit and of a request that may not be sent, as a node gives them.
const LIMIT: u32 = 1202;
const REQUEST: u32 = 1214;

/// What a server answers.
type Server = Rc<dyn Fn(Request) -> (mfaas_abi::Status, Response)>;

/// Pieces of bodies, by the numbers of their requests.
type Bodies = BTreeMap<u32, Vec<u8>>;

thread_local! {
    static ALL: RefCell<Vec<Server>> = const { RefCell::new(Vec::new()) };
    static SECRETS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    static UPLOADS: RefCell<Bodies> = const { RefCell::new(Bodies::new()) };
    static ANSWERS: RefCell<Bodies> = const { RefCell::new(Bodies::new()) };
}

/// A server that answers as this closure does, for the parameter of a handler. A secret is `Bearer secret:NAME` in `authorization`, with the
/// name of its binding. What a node refuses to send (some headers, for example) is not refused here.
pub fn http<B: Binding, A: Access, R: IntoResponse>(answer: impl Fn(Request) -> R + 'static) -> Http<B, A> {
    let place = ALL.with_borrow_mut(|all| {
        all.push(Rc::new(move |request| answer(request).into_response()));
        all.len() - 1
    });
    Http::at(SERVERS + place as u32)
}

/// A secret for the parameter of a handler.
pub fn secret<B: Binding>() -> Secret<B> {
    let place = SECRETS.with_borrow_mut(|all| {
        all.push(B::NAME);
        all.len() - 1
    });
    Secret::at(place as u32)
}

/// Does what is asked of a server.
pub(super) fn answer(server: u32, request: &[u8]) -> Option<Outcome> {
    let refused = |code, message: &str| Some(Outcome { code, bytes: message.as_bytes().to_vec() });
    let bytes = match HttpRequest::decode(request)? {
        HttpRequest::Append { upload, bytes } => {
            UPLOADS.with_borrow_mut(|all| all.entry(upload).or_default().extend_from_slice(bytes));
            Vec::new()
        }
        HttpRequest::Rest { exchange, offset } => ANSWERS.with_borrow(|all| {
            let rest = all.get(&exchange)?.get(offset as usize..)?;
            Some(rest[..rest.len().min(HTTP_PIECE_BYTES_MAX)].to_vec())
        })?,
        HttpRequest::Send { exchange, upload, secrets, frame } => {
            let before = upload.and_then(|upload| UPLOADS.with_borrow_mut(|all| all.remove(&upload)));
            let request = match sent(&RequestFrame::decode(frame).ok()?, &secrets, before.unwrap_or_default())
            {
                Ok(request) => request,
                Err(error) => return refused(REQUEST, &error.to_string()),
            };
            // It may ask others itself.
            let server = ALL.with_borrow(|all| all.get(server as usize).map(Rc::clone))?;
            let (status, response) = server(request);
            let reply = response.into_reply(status).ok()?;
            if reply.body.len() > HTTP_BODY_BYTES_MAX {
                return refused(LIMIT, "an answer has 1 MiB at most");
            }
            let headers = Headers::from_checked(reply.header_count, &reply.headers);
            let first = &reply.body[..reply.body.len().min(HTTP_PIECE_BYTES_MAX)];
            let (mut frame, most) = (Vec::new(), HTTP_PIECE_BYTES_MAX);
            encode_checked_response(&mut frame, reply.http_status, reply.content_type, headers, first, most)
                .ok()?;
            let bytes = HttpReply::encode_answer(reply.body.len(), &frame);
            ANSWERS.with_borrow_mut(|all| drop(all.insert(exchange, reply.body)));
            bytes
        }
    };
    Some(Outcome { code: DONE, bytes })
}

/// What the server gets: a secret in the header that most have it in.
fn sent(frame: &RequestFrame<'_>, secrets: &[u32], before: Vec<u8>) -> Result<Request, FrameError> {
    const CARRIES: &str = "authorization";
    let carried = secrets.iter().map(|secret| {
        let name = SECRETS.with_borrow(|all| all.get(*secret as usize).copied());
        format!("Bearer secret:{}", name.unwrap_or_default())
    });
    let carried: Vec<String> = carried.collect();
    let own = frame.headers.iter().filter(|(name, _)| carried.is_empty() || *name != CARRIES);
    let headers = own.chain(carried.iter().map(|value| (CARRIES, &**value)));
    let mut whole = Vec::new();
    encode_request(&mut whole, frame.method, frame.path, headers, &[&before, frame.body].concat())?;
    RequestFrame::decode(&whole).map(|frame| Request::from_frame(&frame))
}
