//! The call's record, as far as the shim reads and writes it.

use mfaas_abi::{Call, Records, Reply, ResponseRecord, Span};

/// Hands the handler's reply to the host; the number of its status.
pub(crate) fn respond(call: &mut Call, reply: Reply) -> u32 {
    call.response = ResponseRecord {
        http_status: u32::from(reply.http_status),
        content_type: reply.content_type as u32,
        headers: Span::of(reply.headers.leak()),
        header_count: usize::from(reply.header_count),
        body: Span::of(reply.body.leak()),
    };
    reply.status.as_u32()
}

/// Bytes of the request.
pub(crate) fn bytes(span: &Span) -> &[u8] {
    // SAFETY: INV-SHIM-1. Readable and unchanged until the call ends.
    unsafe { std::slice::from_raw_parts(span.start, span.bytes) }
}

/// What a call hears that is resumed.
pub(crate) fn records(span: &Span) -> Records<'_> {
    Records::decode(bytes(span)).unwrap_or_default()
}
