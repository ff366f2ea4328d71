#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::pin::pin;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::*;

/// Longer than anything takes that does not hang.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Shorter than that: it is waited for in vain.
const IN_VAIN: Duration = Duration::from_millis(50);

/// Both ends of a connection of which one byte of the two that came was taken.
async fn half_read() -> (UnixStream, BufReader<OwnedReadHalf>) {
    let (mut node, broker) = UnixStream::pair().unwrap();
    let mut reader = BufReader::new(broker.into_split().0);
    node.write_all(b"12").await.unwrap();
    assert_eq!(reader.read_u8().await.unwrap(), b'1');
    assert_eq!(reader.buffer(), b"2");
    (node, reader)
}

/// Also where the thread was without its core for all the time in which it would have looked.
#[tokio::test]
async fn what_came_with_the_message_before_is_not_waited_for() {
    let (_node, reader) = half_read().await;
    for look in [LOOK, Duration::ZERO] {
        timeout(WAIT_MAX, for_message(&reader, &Notify::new(), look)).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_and_the_end_are_heard_of_after_the_look_and_what_is_told_alone_is_neither() {
    let (mut node, mut reader) = half_read().await;
    assert_eq!(reader.read_u8().await.unwrap(), b'2');
    let told = Notify::new();
    told.notify_one();
    {
        let mut waiting = pin!(for_message(&reader, &told, LOOK));
        assert!(timeout(IN_VAIN, &mut waiting).await.is_err());
        node.write_all(b"3").await.unwrap();
        timeout(WAIT_MAX, waiting).await.unwrap();
    }
    assert_eq!(reader.read_u8().await.unwrap(), b'3');
    drop(node);
    timeout(WAIT_MAX, for_message(&reader, &told, Duration::ZERO)).await.unwrap();
    assert!(reader.read_u8().await.is_err());
}
