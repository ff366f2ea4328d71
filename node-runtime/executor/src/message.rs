//! The sentence about a call's end, in a fixed buffer: after lock-down nothing may be allocated.

use std::fmt::Write as _;

use mfaas_abi::limits::PANIC_BYTES_MAX;

use crate::judge::Unfit;
use crate::limits::Limits;
use crate::state::{self, End};
use crate::zeros;

/// A bounded text; what does not fit is dropped.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: [u8; PANIC_BYTES_MAX],
    len: usize,
}

impl Message {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; PANIC_BYTES_MAX], len: 0 }
    }

    /// Says how a call ended. Never an address: what a reader of answers learns is not what a function can see.
    pub(crate) fn describe(&mut self, end: End, unfit: Option<Unfit>, limits: Limits) {
        let Limits { budget, memory } = limits;
        // Writing here cannot fail.
        let _ = match end {
            End::Returned(_) => match unfit {
                None => Ok(()),
                Some(Unfit::Status) => {
                    self.write_str("the function ended with a status that is not its to say")
                }
                Some(Unfit::Record) => self.write_str("the response does not lie in the function's memory"),
                Some(Unfit::Response(error)) => write!(self, "the response cannot be sent: {error}"),
                Some(Unfit::Operations) => {
                    self.write_str("the operations that the function waits for are too many or too long")
                }
                Some(Unfit::State { bytes, most }) => {
                    write!(self, "the call waits with {bytes} bytes of memory in use, and may with {most}")
                }
            },
            End::Panicked => {
                self.copy_panic_text();
                Ok(())
            }
            End::OutOfMemory(bytes) => write!(self, "no room for {bytes} more bytes in {memory} of memory"),
            End::Aborted => self.write_str("the function aborted"),
            End::OverBudget => write!(self, "the budget of {budget} of CPU time is used up"),
            End::StackOverflow => self.write_str("the stack of 512 KiB is used up"),
            End::Denied(number) => write!(self, "system call {number} is denied"),
            End::Fault(signal) => self.write_str(fault_text(signal)),
        };
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Leaves zeros. Nothing was ever written behind the length.
    pub(crate) fn wipe(&mut self) {
        zeros::zero(&mut self.bytes[..self.len]);
        self.len = 0;
    }

    fn copy_panic_text(&mut self) {
        state::with(|state| {
            // SAFETY: INV-EXECUTOR-1. No call runs, so nobody else holds the text.
            let text = unsafe { &*state.panic_text.get() };
            self.append(text.as_bytes());
        });
    }

    fn append(&mut self, text: &[u8]) {
        let taken = text.len().min(PANIC_BYTES_MAX - self.len);
        self.bytes[self.len..self.len + taken].copy_from_slice(&text[..taken]);
        self.len += taken;
    }
}

impl std::fmt::Write for Message {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}

fn fault_text(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV | libc::SIGBUS => "an access to memory that is not the function's",
        libc::SIGILL => "an illegal instruction",
        libc::SIGFPE => "an arithmetic trap",
        _ => "a fault",
    }
}
