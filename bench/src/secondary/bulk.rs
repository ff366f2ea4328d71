//! Calls of a bulk function without a pause: whoever makes them waits for an answer and calls again.
//!
//! It must never count an answer that is wrong: the first is unpacked, and all others are the same.

use anyhow::{Context as _, ensure};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use super::{Counter, Work};
use crate::load::uniform;
use crate::sides::http::Client;
use crate::sides::mfaas::BulkTarget;

/// What is compressed.
const TEXT_BYTES: usize = 16 << 20;
/// Words of that text, and letters of each at most.
const WORDS: usize = 1_024;
const LETTERS_MAX: usize = 9;
/// What pictures are made of: a photo of 12 megapixels.
const WIDTH: u16 = 4_000;
const HEIGHT: u16 = 3_000;
const QUALITY: u8 = 90;
/// How much a value differs from what is around it, as the noise of a camera does.
const GRAIN: f64 = 24.0;
/// Head and tail of a gzip file without a name (RFC 1952), and blocks of a tar archive (POSIX ustar) with its field of a length.
const GZIP_HEAD: usize = 10;
const GZIP_TAIL: usize = 8;
const BLOCK: usize = 512;
const LENGTH: std::ops::Range<usize> = 124..135;
/// Pictures of one photo.
const PICTURES: usize = 5;

/// What every call sends, and where.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    work: Work,
    target: BulkTarget,
    body: Vec<u8>,
    /// What every call answers, once there was one.
    answer: Vec<u8>,
}

impl Calls {
    /// Makes the body.
    pub(super) fn new(work: Work, target: BulkTarget) -> anyhow::Result<Self> {
        let body = match work {
            Work::BulkGzip => text(),
            Work::BulkImages => photo()?,
            Work::Cpu | Work::Disk | Work::Builds => anyhow::bail!("{work:?} makes no calls"),
        };
        Ok(Self { work, target, body, answer: Vec::new() })
    }

    /// The first call, whose answer is unpacked.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.answer = self.connect()?.exchange(&self.body)?;
        match self.work {
            Work::BulkGzip => is_packed(&self.answer, &self.body),
            _ => has_pictures(&self.answer),
        }
    }

    /// Calls until it is killed, and counts the calls.
    pub(super) fn repeat(&self, counter: &mut Counter) -> anyhow::Result<()> {
        let mut client = self.connect()?;
        loop {
            ensure!(client.exchange(&self.body)? == self.answer, "the same call has another answer");
            counter.add(1)?;
        }
    }

    fn connect(&self) -> anyhow::Result<Client> {
        Client::connect_with(self.target.address, &self.target.path, self.body.len())
    }
}

/// Some words, in any order.
fn text() -> Vec<u8> {
    let mut random = 1;
    let mut draw = |below: usize| (uniform(&mut random) * below as f64) as usize;
    let mut words = Vec::new();
    for _ in 0..WORDS {
        let letters = 1 + draw(LETTERS_MAX);
        let word: Vec<u8> = (0..letters).map(|_| b'a' + draw(26) as u8).chain([b' ']).collect();
        words.push(word);
    }
    let mut text = Vec::with_capacity(TEXT_BYTES + LETTERS_MAX + 1);
    while text.len() < TEXT_BYTES {
        text.extend_from_slice(&words[draw(WORDS)]);
    }
    text.truncate(TEXT_BYTES);
    text
}

/// Colours that change slowly from place to place, and some grain.
fn photo() -> anyhow::Result<Vec<u8>> {
    let mut random = 1;
    let mut pixels = Vec::with_capacity(usize::from(WIDTH) * usize::from(HEIGHT) * 3);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let grain = (uniform(&mut random) * GRAIN) as u16;
            pixels.extend([x / 20, y / 16, (x + y) / 40].map(|value| (value + grain) as u8));
        }
    }
    let mut file = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut file, QUALITY);
    encoder.encode(&pixels, WIDTH, HEIGHT, jpeg_encoder::ColorType::Rgb).context("make a photo")?;
    Ok(file)
}

fn is_packed(answer: &[u8], plain: &[u8]) -> anyhow::Result<()> {
    let packed = answer.get(GZIP_HEAD..answer.len().saturating_sub(GZIP_TAIL)).context("no gzip file")?;
    let unpacked = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, plain.len());
    ensure!(unpacked.is_ok_and(|unpacked| unpacked == plain), "what was packed does not come back");
    Ok(())
}

fn has_pictures(archive: &[u8]) -> anyhow::Result<()> {
    let mut rest = archive;
    for picture in 0..PICTURES {
        let length = rest.get(LENGTH).and_then(|length| std::str::from_utf8(length).ok());
        let length =
            length.and_then(|length| usize::from_str_radix(length, 8).ok()).context("no tar archive")?;
        let file = rest.get(BLOCK..BLOCK + length).context("a picture is cut off")?;
        let mut decoder = JpegDecoder::new(ZCursor::new(file));
        ensure!(decoder.decode().is_ok_and(|pixels| !pixels.is_empty()), "picture {picture} is no JPEG file");
        rest = rest.get(BLOCK + length.next_multiple_of(BLOCK)..).context("the archive is cut off")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
