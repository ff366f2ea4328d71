//! AES-128 (FIPS 197) by tables that hold a byte's substitution and its part of the mixed column. It takes different times for
//! different keys, as tables do: a benchmark, not a cipher to use.

const ROUNDS: usize = 10;
const SUBSTITUTED: [u8; 256] = substituted();
const MIXED: [u32; 256] = mixed();

/// An expanded key.
pub struct Key([[u32; 4]; ROUNDS + 1]);

impl Key {
    /// Expands a key.
    pub fn new(key: &[u8; 16]) -> Self {
        let mut words = [0_u32; 4 * (ROUNDS + 1)];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        let mut constant = 1_u8;
        for at in 4..words.len() {
            let mut word = words[at - 1];
            if at % 4 == 0 {
                word = substitute(word.rotate_left(8)) ^ (u32::from(constant) << 24);
                constant = doubled(constant);
            }
            words[at] = words[at - 4] ^ word;
        }
        let mut rounds = [[0; 4]; ROUNDS + 1];
        for (round, words) in rounds.iter_mut().zip(words.as_chunks::<4>().0) {
            *round = *words;
        }
        Self(rounds)
    }

    /// Encrypts or decrypts in counter mode, from that value of the counter on.
    pub fn apply(&self, counter: u128, text: &mut [u8]) {
        for (counter, block) in (counter..).zip(text.chunks_mut(16)) {
            let stream = self.encrypted(counter.to_be_bytes());
            block.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
        }
    }

    /// One block.
    pub fn encrypted(&self, block: [u8; 16]) -> [u8; 16] {
        let mut columns = [0_u32; 4];
        for (column, bytes) in columns.iter_mut().zip(block.as_chunks::<4>().0) {
            *column = u32::from_be_bytes(*bytes);
        }
        columns = xor(columns, self.0[0]);
        for key in &self.0[1..ROUNDS] {
            let mixed = [0, 1, 2, 3].map(|at| {
                MIXED[byte(columns, at, 0)]
                    ^ MIXED[byte(columns, at, 1)].rotate_right(8)
                    ^ MIXED[byte(columns, at, 2)].rotate_right(16)
                    ^ MIXED[byte(columns, at, 3)].rotate_right(24)
            });
            columns = xor(mixed, *key);
        }
        let last = [0, 1, 2, 3]
            .map(|at| u32::from_be_bytes([0, 1, 2, 3].map(|row| SUBSTITUTED[byte(columns, at, row)])));
        let mut encrypted = [0; 16];
        for (bytes, column) in encrypted.as_chunks_mut::<4>().0.iter_mut().zip(xor(last, self.0[ROUNDS])) {
            *bytes = column.to_be_bytes();
        }
        encrypted
    }
}

/// The byte of a row that comes into a column when rows are shifted.
fn byte(columns: [u32; 4], column: usize, row: usize) -> usize {
    usize::from(columns[(column + row) % 4].to_be_bytes()[row])
}

fn xor(one: [u32; 4], other: [u32; 4]) -> [u32; 4] {
    std::array::from_fn(|at| one[at] ^ other[at])
}

fn substitute(word: u32) -> u32 {
    u32::from_be_bytes(word.to_be_bytes().map(|byte| SUBSTITUTED[usize::from(byte)]))
}

/// Times two in the field of AES.
const fn doubled(byte: u8) -> u8 {
    (byte << 1) ^ if byte & 0x80 == 0 { 0 } else { 0x1b }
}

/// Each byte's inverse, and of that the affine map of the standard. Goes through all that is not 0 by a generator, 3, and its inverse.
const fn substituted() -> [u8; 256] {
    let mut table = [0; 256];
    let (mut power, mut inverse) = (1_u8, 1_u8);
    loop {
        let mut mapped = inverse;
        let mut turn = 1;
        while turn <= 4 {
            mapped ^= inverse.rotate_left(turn);
            turn += 1;
        }
        table[power as usize] = mapped ^ 0x63;
        power ^= doubled(power);
        // Divided by 3.
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        if inverse & 0x80 != 0 {
            inverse ^= 0x09;
        }
        if power == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
}

/// What a byte of the first row adds to its column: twice itself, itself, itself, and thrice itself.
const fn mixed() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let byte = SUBSTITUTED[at];
        let twice = doubled(byte);
        table[at] = u32::from_be_bytes([twice, byte, byte, twice ^ byte]);
        at += 1;
    }
    table
}
