//! Fetches photos from a store, makes another picture of each, and keeps that there: image augmentation over objects or files, with the
//! time that each part takes.

use std::time::Duration;

use jpeg_encoder::{ColorType, Encoder};
use mfaas::{Binding, Error, Json, Objects, Volume, Write};
use serde::{Deserialize, Serialize};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Of photos that are made here, and of pictures.
const WIDTH: usize = 800;
const HEIGHT: usize = 600;
const QUALITY: u8 = 85;

/// Photos and pictures as objects.
pub struct Pictures;

impl Binding for Pictures {
    const NAME: &'static str = "pictures";
    type Value = ();
}

/// The same as files.
pub struct Files;

impl Binding for Files {
    const NAME: &'static str = "files";
    type Value = ();
}

/// How many photos, where they are, and whether they are only made.
#[derive(Debug, Deserialize)]
pub struct Query {
    photos: u32,
    in_files: bool,
    #[serde(default)]
    makes: bool,
}

/// What the parts took, and each upload.
#[derive(Debug, Default, Serialize)]
pub struct Took {
    download_ns: u128,
    compute_ns: u128,
    upload_ns: u128,
    uploads_ns: Vec<u128>,
    bytes: u64,
}

/// Takes `{"photos": 10, "in_files": false}`.
pub async fn handle(
    Json(query): Json<Query>,
    objects: Objects<Pictures, Write>,
    files: Volume<Files, Write>,
) -> Result<Json<Took>, Error> {
    let mut took = Took::default();
    let store = Store { objects, files, in_files: query.in_files };
    for number in 0..query.photos {
        if query.makes {
            store.put(&format!("photo-{number}.jpg"), &encode(&photo(number as usize))?).await?;
            continue;
        }
        let began = mfaas::now();
        let photo = store.get(&format!("photo-{number}.jpg")).await?;
        let downloaded = mfaas::now();
        let picture = encode(&augmented(&decode(&photo)?))?;
        let computed = mfaas::now();
        store.put(&format!("picture-{number}.jpg"), &picture).await?;
        let upload = mfaas::now().duration_since(computed)?;
        took.download_ns += downloaded.duration_since(began)?.as_nanos();
        took.compute_ns += computed.duration_since(downloaded)?.as_nanos();
        took.upload_ns += upload.as_nanos();
        took.uploads_ns.push(upload.max(Duration::from_nanos(1)).as_nanos());
        took.bytes += picture.len() as u64;
    }
    Ok(Json(took))
}

/// Where photos and pictures are.
struct Store {
    objects: Objects<Pictures, Write>,
    files: Volume<Files, Write>,
    in_files: bool,
}

impl Store {
    async fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let nothing = || Error::new("there is no such photo");
        if !self.in_files {
            return self.objects.get(name).await?.ok_or_else(nothing);
        }
        let file = self.files.open(name).await?.ok_or_else(nothing)?;
        let bytes = file.size().await? as usize;
        Ok(file.read_at(0, bytes).await?)
    }

    /// A file lies on its disk then.
    async fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if !self.in_files {
            return Ok(self.objects.put(name, bytes).await?);
        }
        let file = self.files.open_or_create(name).await?;
        file.write_at(0, bytes).await?;
        Ok(file.sync().await?)
    }
}

/// Rows of pixels of three bytes.
struct Image {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

/// Colours that change slowly from place to place, and some grain; each number has another one.
fn photo(number: usize) -> Image {
    let mut state = number as u32 + 1;
    let bytes = (0..WIDTH * HEIGHT).flat_map(|at| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (x, y, grain) = (at % WIDTH, at / WIDTH, (state >> 28) as usize);
        [x / 4, y / 3, (x + y) / 6 + number].map(|shade| ((shade + grain) % 256) as u8)
    });
    Image { width: WIDTH, height: HEIGHT, bytes: bytes.collect() }
}

/// Left and right exchanged, turned by a quarter, and lighter.
fn augmented(image: &Image) -> Image {
    let pixel = |x: usize, y: usize| &image.bytes[(y * image.width + x) * 3..][..3];
    let bytes = (0..image.width).flat_map(|x| {
        (0..image.height).flat_map(move |y| {
            let pixel = pixel(image.width - 1 - x, image.height - 1 - y);
            pixel.iter().map(|shade| shade.saturating_add(20))
        })
    });
    Image { width: image.height, height: image.width, bytes: bytes.collect() }
}

fn decode(file: &[u8]) -> Result<Image, Error> {
    let options = DecoderOptions::new_safe().set_strict_mode(true).jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    let bytes = decoder.decode().map_err(|error| Error::new(format!("no photo: {error}")))?;
    let size = decoder.info().ok_or_else(|| Error::new("a photo without a size"))?;
    Ok(Image { width: size.width.into(), height: size.height.into(), bytes })
}

fn encode(image: &Image) -> Result<Vec<u8>, Error> {
    let mut file = Vec::new();
    Encoder::new(&mut file, QUALITY)
        .encode(&image.bytes, image.width as u16, image.height as u16, ColorType::Rgb)
        .map_err(|error| Error::new(format!("no picture: {error}")))?;
    Ok(file)
}
