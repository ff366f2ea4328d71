//! An image that verifies, as the loader has put it into a slab: what mutants are made of.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use iced_x86::{Decoder, DecoderOptions};
use mfaas_executor::{SlabGeometry, SlabWriter, Verification, sealed_copy};
use mfaas_inspect::verify::{CodeSegment, Violation, verify};
use mfaas_rules::profiles::image_layout::Bank;

use crate::window::{BANK, BUNDLE_BYTES, CODE, CODE_OFFSET, CONSTANTS, CONSTANTS_OFFSET, RECORDS, SLOTS};

/// An image in its slab.
pub(crate) struct Base {
    pub(crate) name: &'static str,
    /// All of the bank: gates, library, the image, and traps.
    pub(crate) code: Vec<u8>,
    pub(crate) constants: Vec<u8>,
    /// Data as every call begins with it, by address.
    pub(crate) data: Vec<(usize, Vec<u8>)>,
    pub(crate) entry: u64,
    /// Where the image's code lies in the bank.
    pub(crate) segment: Range<usize>,
    /// Addresses of its segments.
    image: Vec<Range<u64>>,
    /// Where its instructions begin in the bank, and how long they are.
    pub(crate) instructions: Vec<(usize, usize)>,
    pub(crate) requests: Vec<Vec<u8>>,
    /// For each request the instructions of the bundles that it executes, as indexes.
    pub(crate) executed: Vec<Vec<usize>>,
}

impl Base {
    pub(crate) fn new(name: &'static str, file: &[u8], requests: &[&[u8]]) -> Self {
        let geometry = SlabGeometry { bank_bytes: BANK, asset_bytes: 0, slots: SLOTS };
        let mut writer = SlabWriter::new(geometry, Verification::Required).expect("a slab");
        let loaded = writer.load(sealed_copy(file).expect("a memfd")).expect("it verifies");
        let slab = File::from(writer.finish());
        let bytes = |from: u64, count: usize| {
            let mut bytes = vec![0; count];
            slab.read_exact_at(&mut bytes, from).expect("the slab has it");
            bytes
        };
        let (code, constants) = (bytes(CODE_OFFSET, BANK), bytes(CONSTANTS_OFFSET, BANK));
        let record = bytes(RECORDS + 64 * u64::from(loaded.slot), 64);
        let words: Vec<usize> =
            record.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word) as usize).collect();
        let [_, entry, pristine, data, data_bytes, tls, tls_bytes, _] = words[..] else {
            panic!("a record has eight words")
        };
        let (data_held, tls_held) = (data_bytes as u32 as usize, tls_bytes as u32 as usize);
        let held = |from: usize, count: usize| constants[from - CONSTANTS..][..count].to_vec();
        let data = vec![(data, held(pristine, data_held)), (tls, held(pristine + data_held, tls_held))];
        let layout = mfaas_inspect::layout(file).expect("it was loaded");
        let address = loaded.address as u64;
        let of = |bank| layout.segments.iter().filter(move |segment| Bank::of(&segment.range()) == bank);
        let moved = |range: Range<u64>| address + range.start..address + range.end;
        let banks = [Bank::Code, Bank::Data, Bank::Constants];
        let image = banks.into_iter().flat_map(|bank| of(Some(bank))).map(|one| moved(one.range())).collect();
        let own = moved(of(Some(Bank::Code)).next().expect("it has code").range());
        let segment = own.start as usize - CODE..own.end as usize - CODE;
        let instructions = instructions(&code[segment.clone()], segment.start);
        let requests: Vec<Vec<u8>> = requests.iter().map(|request| request.to_vec()).collect();
        let (entry, executed) = (entry as u64, vec![Vec::new(); requests.len()]);
        Self { name, code, constants, data, entry, segment, image, instructions, requests, executed }
    }

    /// What the loader asks of code before it appears.
    pub(crate) fn verify(&self, code: &[u8]) -> Result<(), Violation> {
        let address = (CODE + self.segment.start) as u64;
        verify(CodeSegment { bytes: code, address, image: &self.image })
    }

    pub(crate) fn own(&self) -> &[u8] {
        &self.code[self.segment.clone()]
    }
}

/// Where the instructions of verified code begin in the bank, and how long they are.
fn instructions(code: &[u8], start: usize) -> Vec<(usize, usize)> {
    let decoder = Decoder::with_ip(64, code, start as u64, DecoderOptions::NONE);
    decoder.into_iter().map(|one| (one.ip() as usize, one.len())).collect()
}

/// The first byte of the bundle that holds a place in the bank.
pub(crate) fn bundle_of(place: usize) -> usize {
    place / BUNDLE_BYTES * BUNDLE_BYTES
}
