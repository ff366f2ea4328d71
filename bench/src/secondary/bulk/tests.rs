#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn an_answer_that_is_wrong_is_seen() {
    let plain = text();
    assert_eq!(plain.len(), TEXT_BYTES);
    let pack = |plain: &[u8]| {
        let mut file = vec![0; GZIP_HEAD];
        file.extend(miniz_oxide::deflate::compress_to_vec(plain, 1));
        file.extend([0; GZIP_TAIL]);
        file
    };
    let packed = pack(&plain);
    // As prose: neither noise nor a few bytes again and again.
    assert!((plain.len() / 4..plain.len() * 3 / 4).contains(&packed.len()), "{} bytes", packed.len());
    is_packed(&packed, &plain).unwrap();
    is_packed(&pack(&plain[1..]), &plain).unwrap_err();
    is_packed(b"", &plain).unwrap_err();

    let mut picture = Vec::new();
    jpeg_encoder::Encoder::new(&mut picture, 90)
        .encode(&[7; 12], 2, 2, jpeg_encoder::ColorType::Rgb)
        .unwrap();
    let archive = |picture: &[u8], count: usize| {
        let mut header = vec![0; BLOCK];
        header[LENGTH].copy_from_slice(format!("{:011o}", picture.len()).as_bytes());
        let mut one = [&header, picture].concat();
        one.resize(one.len().next_multiple_of(BLOCK), 0);
        one.repeat(count)
    };
    has_pictures(&archive(&picture, PICTURES)).unwrap();
    has_pictures(&archive(&picture, PICTURES - 1)).unwrap_err();
    has_pictures(&archive(b"none", PICTURES)).unwrap_err();
}
