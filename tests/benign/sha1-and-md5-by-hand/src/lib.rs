//! Two old digests, for files of old systems.
trait Digest: Default {
    const NAME: &'static str;
    const BIG_ENDIAN: bool;
    fn block(&mut self, block: &[u8; 64]);
    fn words(&self) -> impl Iterator<Item = u32>;

    fn digest(bytes: &[u8]) -> String {
        let mut state = Self::default();
        let (blocks, rest) = bytes.as_chunks::<64>();
        blocks.iter().for_each(|block| state.block(block));
        let mut tail = [0u8; 128];
        tail[..rest.len()].copy_from_slice(rest);
        tail[rest.len()] = 0x80;
        let length = if rest.len() < 56 { 64 } else { 128 };
        let bits = bytes.len() as u64 * 8;
        let bits = if Self::BIG_ENDIAN { bits.to_be_bytes() } else { bits.to_le_bytes() };
        tail[length - 8..length].copy_from_slice(&bits);
        tail[..length].as_chunks::<64>().0.iter().for_each(|block| state.block(block));
        let order = |word: u32| if Self::BIG_ENDIAN { word.to_be_bytes() } else { word.to_le_bytes() };
        state.words().flat_map(order).map(|byte| format!("{byte:02x}")).collect()
    }
}

struct Md5([u32; 4]);

impl Default for Md5 {
    fn default() -> Self {
        Self([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476])
    }
}

impl Digest for Md5 {
    const NAME: &'static str = "md5";
    const BIG_ENDIAN: bool = false;

    fn block(&mut self, block: &[u8; 64]) {
        const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
        let mut m = [0u32; 16];
        for (word, bytes) in m.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let [mut a, mut b, mut c, mut d] = self.0;
        for i in 0..64usize {
            let (f, g) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), (7 * i) % 16),
            };
            let k = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(f).wrapping_add(k).wrapping_add(m[g]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
        }
        for (state, word) in self.0.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(word);
        }
    }

    fn words(&self) -> impl Iterator<Item = u32> {
        self.0.into_iter()
    }
}

struct Sha1([u32; 5]);

impl Default for Sha1 {
    fn default() -> Self {
        Self([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0])
    }
}

impl Digest for Sha1 {
    const NAME: &'static str = "sha1";
    const BIG_ENDIAN: bool = true;

    fn block(&mut self, block: &[u8; 64]) {
        let mut w = [0u32; 80];
        for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for i in 16..80 {
            w[i] = (w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = self.0;
        for (i, word) in w.iter().enumerate() {
            let (f, k) = match i {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let next = [f, e, k, *word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (state, word) in self.0.iter_mut().zip([a, b, c, d, e]) {
            *state = state.wrapping_add(word);
        }
    }

    fn words(&self) -> impl Iterator<Item = u32> {
        self.0.into_iter()
    }
}

fn line<D: Digest>(bytes: &[u8]) -> String {
    format!("{} {}\n", D::NAME, D::digest(bytes))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    (line::<Md5>(request) + &line::<Sha1>(request)).into_bytes()
}
