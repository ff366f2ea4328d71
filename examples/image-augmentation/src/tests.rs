use jpeg_encoder::{ColorType, Encoder};
use mfaas::Request;

use super::{PIXELS_MAX, TRANSFORMS, augment, decode};

/// A JPEG file, by columns and rows from 0 on.
fn jpeg(width: u16, height: u16, pixel: impl Fn(u16, u16) -> [u8; 3]) -> Vec<u8> {
    let pixels: Vec<[u8; 3]> =
        (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| pixel(x, y)).collect();
    let mut file = Vec::new();
    Encoder::new(&mut file, 95)
        .encode(pixels.as_flattened(), width, height, ColorType::Rgb)
        .expect("a picture");
    file
}

fn asked(body: Vec<u8>) -> (u16, String) {
    let response = augment(Request::new("POST", "/").with_body(body));
    (response.status(), String::from_utf8_lossy(response.body()).into_owned())
}

#[test]
fn a_photo_becomes_five_pictures() {
    // Red on the left, blue on the right.
    let photo = jpeg(64, 48, |x, _| if x < 32 { [200, 0, 0] } else { [0, 0, 200] });
    let response = augment(Request::new("POST", "/").with_body(photo));
    assert_eq!(response.status(), 200);
    assert!(response.headers().any(|header| header == ("content-type", "application/x-tar")));
    let (mut rest, mut sizes) = (response.body(), Vec::new());
    for transform in TRANSFORMS {
        assert!(rest.starts_with(transform.name.as_bytes()));
        let length = std::str::from_utf8(&rest[124..135]).expect("a number");
        let length = usize::from_str_radix(length, 8).expect("a number");
        let picture = decode(&rest[512..512 + length]).expect("a picture");
        sizes.push((picture.width(), picture.height()));
        if transform.name == "flipped.jpg" {
            let [red, _, blue] = picture.bytes()[..3] else { panic!("a pixel") };
            assert!(red < 20 && blue > 180, "red {red}, blue {blue}");
        }
        rest = &rest[512 + length.next_multiple_of(512)..];
    }
    assert_eq!(sizes, [(64, 48), (48, 64), (32, 24), (64, 48), (64, 48)]);
    assert_eq!(rest, [0; 1024]);
}

#[test]
fn what_is_no_photo_is_refused() {
    for (body, why) in
        [(&b""[..], "nothing"), (b"GIF89a, say", "another format"), (&[0xff, 0xd8, 0xff], "a beginning")]
    {
        let (status, text) = asked(body.to_vec());
        assert!(status == 415 && text.starts_with("not a JPEG file"), "{why}: {status} {text}");
    }
    let mut cut = jpeg(64, 48, |x, y| [(x * y) as u8, x as u8, y as u8]);
    cut.truncate(cut.len() / 2);
    assert_eq!(asked(cut).0, 415);
}

/// Of what is too large only the size is there: nothing is decoded.
#[test]
fn more_than_12_megapixels_are_refused_by_their_size_alone() {
    let sized = |width: u16, height: u16| {
        let mut file = jpeg(16, 16, |_, _| [9; 3]);
        // The frame header (SOF0): length, precision, then height and width.
        let frame = file.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("a frame");
        file[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
        file[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
        asked(file)
    };
    assert_eq!(PIXELS_MAX, 4_096 * 3_072);
    let (status, text) = sized(4_097, 3_072);
    assert_eq!(
        (status, text.as_str()),
        (413, "4097 x 3072 pixels are more than 12 megapixels: send a smaller photo\n")
    );
    assert_eq!(sized(u16::MAX, u16::MAX).0, 413);
}
