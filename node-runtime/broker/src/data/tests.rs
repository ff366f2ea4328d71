#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn pieces_are_put_together_by_upload_and_count_until_they_are_taken() {
    let mut data = CallData::default();
    for piece in [&b"ab"[..], b"c"] {
        data.uploads.append(1, piece).unwrap();
        data.uploads.append(2, b"x").unwrap();
    }
    assert_eq!(data.uploads.bytes(), 5);
    assert_eq!(data.uploads.finish(Some(1), b"d").unwrap(), b"abcd");
    // What was never begun, was taken or was given up is no beginning of anything.
    assert_eq!(data.uploads.finish(Some(1), b"e").unwrap_err().code, codes::MF1202);
    data.uploads.append(3, b"x").unwrap();
    data.uploads.give_up(3);
    assert_eq!(data.uploads.finish(Some(3), b"e").unwrap_err().code, codes::MF1202);
    assert_eq!(data.uploads.finish(None, b"f").unwrap(), b"f");
    assert_eq!(data.uploads.bytes(), 2);
}

#[test]
fn a_call_stores_bytes_so_many_times() {
    let mut data = CallData { staged: vec![Uuid::nil(); STAGED_MAX - 1], ..CallData::default() };
    data.may_stage().unwrap();
    data.staged.push(Uuid::nil());
    assert_eq!(data.may_stage().unwrap_err().code, codes::MF1202);
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
