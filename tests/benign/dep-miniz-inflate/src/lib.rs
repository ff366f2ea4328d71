//! Unpacks zlib within a limit; with `pack:` before it, packs and looks whether it comes back.
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

const LIMIT: usize = 64 << 10;

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    decompress_to_vec_zlib_with_limit(bytes, LIMIT).map_err(|error| match error.status {
        TINFLStatus::HasMoreOutput => "larger than 64 KiB",
        TINFLStatus::Adler32Mismatch => "the checksum is wrong",
        TINFLStatus::FailedCannotMakeProgress | TINFLStatus::NeedsMoreInput => "cut off",
        _ => "not zlib",
    })
}

fn round_trip(plain: &[u8]) -> Result<String, &'static str> {
    let packed = compress_to_vec_zlib(plain, 6);
    let same = if unpack(&packed)? == plain { "the same" } else { "CHANGED" };
    let size = if packed.len() < 100 { "fewer than 100" } else { "many" };
    Ok(format!("{} bytes become {size}, and back {same}", plain.len()))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let done = match request.strip_prefix(b"pack:") {
        Some(plain) => round_trip(plain),
        None => unpack(request).map(|plain| format!("{} bytes: {}", plain.len(), String::from_utf8_lossy(&plain))),
    };
    done.unwrap_or_else(str::to_owned).into_bytes()
}
