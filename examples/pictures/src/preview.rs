//! Smaller pictures of JPEG files.

use jpeg_encoder::{ColorType, Encoder};
use mfaas::Response;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// What a call can hold while it waits for its objects, with the file itself: 8 megapixels.
const PIXELS_MAX: usize = 8_000_000;
/// Width and height of a preview, at most.
const SIDE_MAX: usize = 320;
const QUALITY: u8 = 80;

/// Why there is none: an answer's status and text.
#[derive(Debug)]
pub struct NoPreview(u16, String);

impl NoPreview {
    pub fn response(self) -> Response {
        Response::text(self.1 + "\n").with_status(self.0)
    }
}

fn not_read(why: impl ToString) -> NoPreview {
    NoPreview(415, format!("not a JPEG file that can be read: {}", why.to_string()))
}

/// Pixels of three bytes, rows from above.
#[derive(Debug)]
struct Image {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

/// A JPEG file of the picture in this one, no larger than a preview is, with its width and height.
pub fn of(file: &[u8]) -> Result<(Vec<u8>, usize, usize), NoPreview> {
    let small = decode(file)?.shrunk();
    let mut preview = Vec::new();
    Encoder::new(&mut preview, QUALITY)
        .encode(&small.bytes, small.width as u16, small.height as u16, ColorType::Rgb)
        .map_err(|error| NoPreview(500, format!("the preview cannot be written: {error}")))?;
    Ok((preview, small.width, small.height))
}

/// The size is looked at before anything is decoded.
fn decode(file: &[u8]) -> Result<Image, NoPreview> {
    let options = DecoderOptions::new_safe().set_strict_mode(true).jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().map_err(not_read)?;
    let size = decoder.info().ok_or_else(|| not_read("it has no size"))?;
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    if width * height > PIXELS_MAX {
        let why = format!("{width} x {height} pixels are more than 8 megapixels: send a smaller picture");
        return Err(NoPreview(413, why));
    }
    if decoder.output_buffer_size() != Some(width * height * 3) {
        return Err(not_read("its colours are none of a photo's"));
    }
    let mut bytes = vec![0; width * height * 3];
    decoder.decode_into(&mut bytes).map_err(not_read)?;
    Ok(Image { width, height, bytes })
}

impl Image {
    /// The same in as few pixels as a preview has, each the mean of those that lie there. Not larger than it is.
    fn shrunk(&self) -> Self {
        let longer = self.width.max(self.height).max(SIDE_MAX);
        let side = |side: usize| (side * SIDE_MAX / longer).max(1);
        let (width, height) = (side(self.width), side(self.height));
        let mut bytes = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let rows = y * self.height / height..(y + 1) * self.height / height;
                let columns = x * self.width / width..(x + 1) * self.width / width;
                bytes.extend_from_slice(&self.mean(rows, columns));
            }
        }
        Self { width, height, bytes }
    }

    fn mean(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> [u8; 3] {
        let count = (rows.len() * columns.len()).max(1) as u32;
        let mut sums = [0; 3];
        for row in rows {
            let row =
                &self.bytes[(row * self.width + columns.start) * 3..(row * self.width + columns.end) * 3];
            for pixel in row.as_chunks::<3>().0 {
                sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += u32::from(*value));
            }
        }
        sums.map(|sum| (sum / count) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A JPEG file of these sides, its left half white and its right half black.
    fn halves(width: u16, height: u16) -> Vec<u8> {
        let pixel = |x: u16| if x < width / 2 { [255; 3] } else { [0; 3] };
        let bytes: Vec<u8> = (0..height).flat_map(|_| (0..width).flat_map(pixel)).collect();
        let mut file = Vec::new();
        Encoder::new(&mut file, 90).encode(&bytes, width, height, ColorType::Rgb).unwrap();
        file
    }

    #[test]
    fn a_preview_is_the_same_picture_in_fewer_pixels() {
        let (preview, width, height) = of(&halves(1_280, 640)).unwrap();
        assert_eq!((width, height), (320, 160));
        let small = decode(&preview).unwrap();
        assert_eq!((small.width, small.height), (320, 160));
        let at = |x: usize| small.bytes[(80 * 320 + x) * 3];
        assert!(at(40) > 240 && at(280) < 15, "{} {}", at(40), at(280));
        assert_eq!(of(&halves(16, 8)).map(|(_, width, height)| (width, height)).unwrap(), (16, 8));
        assert_eq!(of(&halves(3_000, 2)).map(|(_, width, height)| (width, height)).unwrap(), (320, 1));
    }

    #[test]
    fn what_is_no_photo_is_refused_before_it_is_decoded() {
        assert_eq!(of(b"no photo").unwrap_err().0, 415);
        assert_eq!(of(&halves(64, 64)[..200]).unwrap_err().0, 415);
        assert_eq!(of(&halves(4_000, 2_001)).unwrap_err().0, 413);
    }
}
