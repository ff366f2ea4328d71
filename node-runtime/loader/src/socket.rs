//! Messages with at most one descriptor, over a socket that keeps them apart.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context as _, ensure};
use mfaas_ring::loading::{LoaderAnswer, LoaderRequest, MESSAGE_BYTES_MAX};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends an answer, with a descriptor if one is given.
pub(crate) fn send(to: impl AsFd, answer: &LoaderAnswer, with: Option<BorrowedFd<'_>>) -> anyhow::Result<()> {
    let text = serde_json::to_vec(answer).context("encode an answer")?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = with.into_iter().collect();
    if !fds.is_empty() {
        ensure!(control.push(SendAncillaryMessage::ScmRights(&fds)), "no room for a descriptor");
    }
    let sent = sendmsg(to, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL).context("answer")?;
    ensure!(sent == text.len(), "half an answer was sent");
    Ok(())
}

/// The next request and the descriptor that came with it; `None` when the node is gone.
pub(crate) fn receive(from: impl AsFd) -> anyhow::Result<Option<(LoaderRequest, Option<OwnedFd>)>> {
    let mut text = [0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message =
        recvmsg(from, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC).context("listen")?;
    if message.bytes == 0 {
        return Ok(None);
    }
    ensure!(!message.flags.contains(ReturnFlags::TRUNC), "a message is too long");
    ensure!(!message.flags.contains(ReturnFlags::CTRUNC), "a message has too many descriptors");
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            fds.extend(received);
        }
    }
    let request = serde_json::from_slice(&text[..message.bytes]).context("parse a request")?;
    Ok(Some((request, fds.pop())))
}
