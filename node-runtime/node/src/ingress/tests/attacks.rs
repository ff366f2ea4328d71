//! Peers that speak no HTTP, or use it to wear the node down. Bytes by hand, since clients are too polite.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Open;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM_AND_HEADERS: u8 = 0x5;
const ENHANCE_YOUR_CALM: u32 = 11;
/// `GET http:/`, in indexed fields (RFC 7541 appendix A).
const GET_ROOT: &[u8] = &[0x82, 0x86, 0x84];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Frames of what a server said: kind and payload.
fn frames(mut said: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = said.split_first_chunk::<9>() {
        let bytes = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(bytes) else { break };
        frames.push((head[3], payload));
        said = rest;
    }
    frames
}

async fn connect(open: &Open) -> TcpStream {
    TcpStream::connect(open.address).await.unwrap()
}

/// Everything until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset instead of an end is an end as well.
    let _ = stream.read_to_end(&mut said).await;
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_reset_at_once_end_the_connection() {
    let open = Open::new().await;
    let mut stream = connect(&open).await;
    let mut flood = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for number in 0..2_000u32 {
        let id = 2 * number + 1;
        flood.extend(frame(HEADERS, END_STREAM_AND_HEADERS, id, GET_ROOT));
        flood.extend(frame(RST_STREAM, 0, id, &8u32.to_be_bytes()));
    }
    // The server may close before it has read everything.
    let _ = stream.write_all(&flood).await;
    let ended = tokio::time::timeout(Duration::from_secs(10), rest(&mut stream)).await;
    let said = ended.expect("the connection goes on");
    let goaway = frames(&said).into_iter().find(|(kind, _)| *kind == GOAWAY);
    if let Some((_, payload)) = goaway {
        assert_eq!(u32::from_be_bytes(payload[4..8].try_into().unwrap()), ENHANCE_YOUR_CALM);
    }
    // That it came to an end is the point; others are still served.
    assert_eq!(
        super::ask(super::client(http::Version::HTTP_2).get(open.url("/healthz")), http::Version::HTTP_2)
            .await
            .0,
        200
    );
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_announced() {
    let open = Open::new().await;
    let mut stream = connect(&open).await;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    let mut said = vec![0; 9];
    stream.read_exact(&mut said).await.unwrap();
    let bytes = u32::from_be_bytes([0, said[0], said[1], said[2]]) as usize;
    said.resize(9 + bytes, 0);
    stream.read_exact(&mut said[9..]).await.unwrap();
    let settings = frames(&said);
    let [(SETTINGS, payload)] = settings[..] else { panic!("{settings:?}") };
    let setting = |id: u16| {
        let found = payload.chunks(6).find(|setting| setting[..2] == id.to_be_bytes());
        found.map(|setting| u32::from_be_bytes(setting[2..].try_into().unwrap()))
    };
    assert_eq!(setting(3), Some(super::super::listener::STREAMS_MAX), "streams at once");
    assert_eq!(setting(6), Some(super::super::listener::HEAD_BYTES_MAX), "header list");
    drop(stream);
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beginning_in_pieces_is_recognised() {
    let open = Open::new().await;
    let mut two = connect(&open).await;
    for piece in [&PREFACE[..1], &PREFACE[1..2], &PREFACE[2..5], &PREFACE[5..]] {
        two.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut first = [0; 9];
    two.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    two.read_exact(&mut first).await.unwrap();
    assert_eq!(first[3], SETTINGS);
    let mut one = connect(&open).await;
    // Two requests at once on a connection that stays open, with a method that begins like the preface.
    for piece in [
        "P",
        "ROPFIND /x HTTP/1.1\r\nhost: a\r\n\r\nGET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    ] {
        one.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let said = String::from_utf8(rest(&mut one).await).unwrap();
    assert!(said.starts_with("HTTP/1.1 501") && said.ends_with("alive\n"), "{said}");
    drop(two);
    open.close().await;
}

/// The clock of these runs ahead whenever everybody waits.
#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_not_enough_is_let_go() {
    let open = Open::new().await;
    let unfinished = frame(HEADERS, 0, 1, GET_ROOT);
    let settings = frame(SETTINGS, 0, 0, &[]);
    let beginnings: [&[u8]; 5] = [
        b"",
        b"PR",
        b"GET /healthz HTTP/1.1\r\nhost",
        &PREFACE[..20],
        &[PREFACE, &settings, &unfinished].concat(),
    ];
    for beginning in beginnings {
        let mut stream = connect(&open).await;
        stream.write_all(beginning).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(300), rest(&mut stream)).await;
        assert!(ended.is_ok(), "{beginning:?} holds a place for ever");
    }
    open.close().await;
}
