//! Functions in libraries that are opened at run time: the paper's language modes.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::function::{ANSWER_BYTES, REQUEST_BYTES};

/// What `functions/library.rs` exports.
const ENTRY: &CStr = c"bench_handle";

type Handle = unsafe extern "C" fn(*const u8, usize, *mut u8) -> usize;

/// An open library, closed when it is dropped.
#[derive(Debug)]
pub struct Library {
    library: *mut libc::c_void,
    handle: Handle,
}

impl Library {
    /// Opens the library with every symbol bound, and finds its function.
    pub fn open(path: &CStr) -> anyhow::Result<Self> {
        // SAFETY: INV-BENCH-2. A text that ends with zero. The library is our own, without constructors.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            bail!("dlopen {}: {}", path.to_string_lossy(), last_error());
        }
        // SAFETY: INV-BENCH-2. An open library and a text that ends with zero.
        let symbol = unsafe { libc::dlsym(library, ENTRY.as_ptr()) };
        if symbol.is_null() {
            bail!("dlsym: {}", last_error());
        }
        // SAFETY: INV-BENCH-3. Every library is built from `functions/library.rs`.
        let handle = unsafe { std::mem::transmute::<*mut libc::c_void, Handle>(symbol) };
        Ok(Self { library, handle })
    }

    /// Calls the function; returns the bytes of its answer.
    pub fn call(&self, request: &[u8; REQUEST_BYTES], answer: &mut [u8; ANSWER_BYTES]) -> usize {
        // SAFETY: INV-BENCH-3. Open as long as `self`; both buffers are as large as it expects.
        unsafe { (self.handle)(request.as_ptr(), REQUEST_BYTES, answer.as_mut_ptr()) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: INV-BENCH-3. Open, and closed once.
        let _ = unsafe { libc::dlclose(self.library) };
    }
}

/// A path as dlopen takes it.
pub fn c_path(path: &Path) -> anyhow::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).context("a path with a zero byte")
}

fn last_error() -> String {
    // SAFETY: INV-BENCH-2. Takes nothing; a text of this thread, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: INV-BENCH-2. A text that ends with zero, until the next call of its kind.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
