//! Makes five training pictures of one photo: a bulk function, which takes seconds where others take microseconds.
//!
//! A JPEG file of up to 12 megapixels goes in. What comes out is a tar archive of five JPEG files: the photo flipped, rotated,
//! cropped, with more contrast and light, and blurred.
//!
//! ```console
//! $ mfaas invoke image-augmentation --file photo.jpg | tar -t
//! flipped.jpg
//! rotated.jpg
//! cropped.jpg
//! brightened.jpg
//! blurred.jpg
//! ```
//!
//! `tar -x` instead of `tar -t` writes them.

mod image;
mod tar;

use jpeg_encoder::{ColorType, Encoder, EncodingError};
use mfaas::{Request, Response};
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use image::Image;

/// 12 megapixels, as cameras count them.
const PIXELS_MAX: usize = 4_096 * 3_072;
/// Of the pictures that come out.
const QUALITY: u8 = 85;

/// What is made of a photo.
struct Transform {
    /// The file's name.
    name: &'static str,
    apply: fn(&Image) -> Image,
}

const TRANSFORMS: [Transform; 5] = [
    Transform { name: "flipped.jpg", apply: Image::flipped },
    Transform { name: "rotated.jpg", apply: Image::rotated },
    Transform { name: "cropped.jpg", apply: Image::cropped },
    Transform { name: "brightened.jpg", apply: Image::brightened },
    Transform { name: "blurred.jpg", apply: Image::blurred },
];

/// Takes a JPEG file, answers a tar archive of five.
pub fn augment(request: Request) -> Response {
    match archive(request.body()) {
        Ok(archive) => Response::bytes(archive).with_header("content-type", "application/x-tar"),
        Err(refused) => refused.response(),
    }
}

fn archive(file: &[u8]) -> Result<Vec<u8>, Refused> {
    let photo = decode(file)?;
    let mut archive = Vec::new();
    for transform in TRANSFORMS {
        let picture = encode(&(transform.apply)(&photo))?;
        tar::append(&mut archive, transform.name, &picture);
    }
    tar::finish(&mut archive);
    Ok(archive)
}

/// Why there are no pictures.
#[derive(Debug)]
enum Refused {
    NotRead(String),
    TooLarge { width: u16, height: u16 },
    NotWritten(EncodingError),
}

impl Refused {
    fn response(self) -> Response {
        let (status, text) = match self {
            Self::NotRead(why) => (415, format!("not a JPEG file that can be read: {why}")),
            Self::TooLarge { width, height } => {
                (413, format!("{width} x {height} pixels are more than 12 megapixels: send a smaller photo"))
            }
            Self::NotWritten(error) => (500, format!("a picture cannot be written: {error}")),
        };
        Response::text(text + "\n").with_status(status)
    }
}

impl From<DecodeErrors> for Refused {
    fn from(error: DecodeErrors) -> Self {
        Self::NotRead(error.to_string())
    }
}

/// The size is looked at before anything is decoded.
fn decode(file: &[u8]) -> Result<Image, Refused> {
    // Strict: a file that was cut off is refused, not filled up with grey.
    let options = DecoderOptions::new_safe().set_strict_mode(true).jpeg_set_out_colorspace(ColorSpace::RGB);
    // Every size that the format has: which is too large is decided below.
    let options = options.set_max_width(u16::MAX.into()).set_max_height(u16::MAX.into());
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers()?;
    let size = decoder.info().ok_or_else(|| Refused::NotRead("it has no size".to_owned()))?;
    let (width, height) = (size.width, size.height);
    if usize::from(width) * usize::from(height) > PIXELS_MAX {
        return Err(Refused::TooLarge { width, height });
    }
    let mut image = Image::black(width, height);
    if decoder.output_buffer_size() != Some(image.bytes().len()) {
        return Err(Refused::NotRead("its colours are none of a photo's".to_owned()));
    }
    decoder.decode_into(image.bytes_mut())?;
    Ok(image)
}

fn encode(image: &Image) -> Result<Vec<u8>, Refused> {
    let mut file = Vec::new();
    Encoder::new(&mut file, QUALITY)
        .encode(image.bytes(), image.width(), image.height(), ColorType::Rgb)
        .map_err(Refused::NotWritten)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
