//! The three shapes, through real frames.

use mfaas_abi::frame::{Headers, RequestFrame, encode_request};
use mfaas_abi::{ContentType, Reply, Status};
use serde::{Deserialize, Serialize};

use crate::__private::invoke;
use crate::{Error, Handler, Json, Request, Response};

fn call<Shape>(handler: impl Handler<Shape>, body: &[u8]) -> Reply {
    let mut frame = Vec::new();
    let headers = [("x-name", "value")];
    encode_request(&mut frame, "POST", "/a/b?c=d", headers, body).expect("a plain request");
    invoke(handler, &RequestFrame::decode(&frame).expect("our own frame"))
}

fn opened(reply: &Reply) -> (Status, u16, &[u8]) {
    (reply.status, reply.http_status, &reply.body)
}

fn upper(body: &[u8]) -> Vec<u8> {
    body.to_ascii_uppercase()
}

fn show(request: Request) -> Response {
    let text = format!(
        "{} {} {:?} {:?} {:?}",
        request.method(),
        request.path(),
        request.query(),
        request.header("X-Name"),
        request.text()
    );
    Response::text(text).with_status(201).with_header("X-Out", "1")
}

#[derive(Deserialize)]
struct Pair {
    a: u32,
    b: u32,
}

#[derive(Serialize)]
struct Quotient {
    value: u32,
}

fn divide(Json(pair): Json<Pair>) -> Result<Json<Quotient>, Error> {
    let value = pair.a.checked_div(pair.b).ok_or_else(|| Error::new("b must not be 0"))?;
    Ok(Json(Quotient { value }))
}

#[test]
fn bytes_to_bytes() {
    assert_eq!(opened(&call(upper, b"abc")), (Status::Ok, 200, &b"ABC"[..]));
}

#[test]
fn request_to_response() {
    let reply = call(show, b"text");
    let headers = Headers::decode(reply.header_count, &reply.headers).expect("headers");
    assert_eq!((headers.len(), headers.get("x-out")), (1, Some("1")));
    assert_eq!(reply.content_type, ContentType::Text);
    let (status, code, body) = opened(&reply);
    assert_eq!((status, code), (Status::Ok, 201));
    assert_eq!(body, br#"POST /a/b Some("c=d") Some("value") Ok("text")"#);
}

#[test]
fn json_to_json() {
    let reply = call(divide, br#"{"a":7,"b":2}"#);
    assert_eq!(opened(&reply), (Status::Ok, 200, &br#"{"value":3}"#[..]));
}

#[test]
fn an_error_of_the_handler_is_its_own_status() {
    let reply = call(divide, br#"{"a":7,"b":0}"#);
    assert_eq!(opened(&reply), (Status::HandlerError, 500, &b"b must not be 0"[..]));
}

#[test]
fn bad_json_is_the_callers_mistake() {
    let reply = call(divide, b"{");
    let (status, code, body) = opened(&reply);
    assert_eq!((status, code), (Status::Ok, 400));
    assert!(body.starts_with(b"EOF while parsing"));
}

#[test]
fn headers_that_cannot_be_sent_are_bad_output() {
    let breaks = |_: Request| Response::new(200).with_header("a", "b\r\nc: d");
    assert_eq!(call(breaks, b"").status, Status::BadOutput);
    let long = |_: Request| Response::new(200).with_header("a", &"b".repeat(1 << 16));
    assert_eq!(call(long, b"").status, Status::BadOutput);
}

#[test]
fn the_usual_content_types_are_headers_like_others() {
    let said = Response::new(200).with_header("Content-Type", "text/plain; charset=utf-8").with_body("a");
    assert_eq!(Response::text("a"), said);
    assert_ne!(Response::html("a"), said);
    assert_eq!(
        Response::html("a").headers().collect::<Vec<_>>(),
        [("content-type", "text/html; charset=utf-8")]
    );
}

#[test]
fn local_stand_ins_serve_a_developers_tests() {
    assert!(crate::now() > std::time::UNIX_EPOCH);
    assert_ne!(crate::random::<16>(), crate::random::<16>());
    crate::log!("a line with {}", 1);
    crate::log!(crate::Level::Warn, "another");
}
