#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn pieces_are_put_together_by_upload_and_count_until_they_are_taken() {
    let mut data = CallData::default();
    let before = data.held_bytes();
    for piece in [&b"ab"[..], b"c"] {
        data.uploads.append(1, piece).unwrap();
        data.uploads.append(2, b"x").unwrap();
    }
    assert_eq!(data.held_bytes() - before, 5);
    assert_eq!(data.uploads.finish(Some(1), b"d").unwrap(), b"abcd");
    // What was never begun is empty, and so is what was taken.
    assert_eq!(data.uploads.finish(Some(1), b"e").unwrap(), b"e");
    assert_eq!(data.uploads.finish(None, b"f").unwrap(), b"f");
    assert_eq!(data.held_bytes() - before, 2);
}

#[test]
fn a_call_uploads_so_much_at_once_and_no_more() {
    let mut uploads = Uploads::default();
    let half = vec![0; OBJECT_BYTES_MAX / 2];
    uploads.append(1, &half).unwrap();
    uploads.append(2, &half).unwrap();
    assert_eq!(uploads.append(2, b"x").unwrap_err().code, codes::MF1202);
    // An object may have all of it.
    assert_eq!(uploads.finish(Some(1), &half).unwrap().len(), OBJECT_BYTES_MAX);
    uploads.append(1, &half).unwrap();
    assert_eq!(uploads.finish(Some(1), &[&half[..], b"x"].concat()).unwrap_err().code, codes::MF1202);

    let mut uploads = Uploads::default();
    for upload in 0..UPLOADS_MAX as u32 {
        uploads.append(upload, b"x").unwrap();
    }
    assert_eq!(uploads.append(UPLOADS_MAX as u32, b"x").unwrap_err().code, codes::MF1202);
    uploads.append(0, b"x").unwrap();
    uploads.finish(Some(0), b"").unwrap();
    uploads.append(UPLOADS_MAX as u32, b"x").unwrap();
}
