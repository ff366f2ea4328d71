//! The assets that the function binds: bytes of the node's, which the call's record says the place of.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use mfaas_abi::{AssetTable, Span};

/// The table of this call; null if the function binds no asset, or is none of a node's.
static TABLE: AtomicPtr<AssetTable> = AtomicPtr::new(ptr::null_mut());

/// Notes where the assets of this call lie. One that is resumed has it noted already, among its statics.
#[cfg(feature = "hosted")]
#[inline]
pub(crate) fn note(table: *const AssetTable) {
    TABLE.store(table.cast_mut(), Ordering::Relaxed);
}

/// The bytes of the asset that the function binds in this place, which stay as they are until the call ends: to a function
/// that is for ever. Nothing if it binds none there.
pub fn asset(place: u32) -> Option<&'static [u8]> {
    let table = TABLE.load(Ordering::Relaxed);
    // SAFETY: INV-SHIM-1. The host's table, or null.
    let table: &'static AssetTable = unsafe { table.as_ref() }?;
    let Span { start, bytes } = *table.get(place as usize)?;
    if bytes == 0 {
        return None;
    }
    // SAFETY: INV-SHIM-1. The host's bytes, which nobody changes while the call lasts.
    Some(unsafe { std::slice::from_raw_parts(start, bytes) })
}
