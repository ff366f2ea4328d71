//! The layouts of `mfaas_abi`, for functions that are built without it.

#[repr(C)]
pub struct Call {
    pub version: u32,
    pub flags: u32,
    pub arena: *mut u8,
    pub arena_bytes: usize,
    pub request: Request,
    pub response: Response,
    pub assets: *const [Span; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    pub start: *const u8,
    pub bytes: usize,
}

#[repr(C)]
pub struct Request {
    pub method: Span,
    pub path: Span,
    pub headers: Span,
    pub header_count: usize,
    pub body: Span,
}

#[repr(C)]
pub struct Response {
    pub http_status: u32,
    pub content_type: u32,
    pub headers: Span,
    pub header_count: usize,
    pub body: Span,
}

impl Response {
    /// A good answer with this body.
    pub const fn of(body: Span) -> Self {
        Self { http_status: 200, content_type: 0, headers: Span { bytes: 0, ..body }, header_count: 0, body }
    }
}
