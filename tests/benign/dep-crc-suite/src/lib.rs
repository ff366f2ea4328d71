//! Checksums of the request by every algorithm of a table.
use crc::{CRC_8_SMBUS, CRC_16_IBM_3740, CRC_32_ISCSI, CRC_32_ISO_HDLC, CRC_64_XZ, Crc};

trait Sum: Sync {
    fn sum(&self, bytes: &[u8]) -> u64;
    fn bits(&self) -> usize;
}

macro_rules! sums {
    ($($width:ty),+) => {$(
        impl Sum for Crc<$width> {
            fn sum(&self, bytes: &[u8]) -> u64 {
                let mut digest = self.digest();
                bytes.chunks(3).for_each(|part| digest.update(part));
                let whole = self.checksum(bytes);
                assert_eq!(digest.finalize(), whole);
                whole.into()
            }
            fn bits(&self) -> usize {
                <$width>::BITS as usize
            }
        }
    )+};
}
sums!(u8, u16, u32, u64);

static TABLE: [(&str, &(dyn Sum + Sync)); 5] = {
    static A: Crc<u8> = Crc::<u8>::new(&CRC_8_SMBUS);
    static B: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);
    static C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
    static D: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
    static E: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);
    [
        ("CRC-8/SMBUS", &A),
        ("CRC-16/IBM-3740", &B),
        ("CRC-32/ISO-HDLC", &C),
        ("CRC-32/ISCSI", &D),
        ("CRC-64/XZ", &E),
    ]
};

pub fn handle(request: &[u8]) -> Vec<u8> {
    let named = std::str::from_utf8(request).ok().and_then(|text| text.strip_prefix("only ")?.split_once(':'));
    let (only, bytes) = named.map_or((None, request), |(name, rest)| (Some(name), rest.as_bytes()));
    let out: String = TABLE
        .iter()
        .filter(|(name, _)| only.is_none_or(|only| only == *name))
        .map(|(name, sum)| format!("{name} {:0width$x}\n", sum.sum(bytes), width = sum.bits() / 4))
        .collect();
    match (only, out.is_empty()) {
        (Some(name), true) => format!("no algorithm {name}\n").into_bytes(),
        _ => out.into_bytes(),
    }
}
