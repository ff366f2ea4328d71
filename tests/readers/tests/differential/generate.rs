//! Archives from a seed: ordinary ones in every way that writers have, and such with a little wrong.

use mfaas_readers::tar::{self, BLOCK, entry, file};

/// Values that change how a field of a header is read.
const TELLING: &[u8] = b"\0 07x/.+-_\x80\xff";

/// An ordinary archive with one byte of one header changed and the checksum mended: every place,
/// every telling value, both magics.
pub(crate) fn single_bytes() -> impl Iterator<Item = Vec<u8>> {
    let places = (0..BLOCK).filter(|at| !(148..156).contains(at));
    let changes = places.flat_map(|at| TELLING.iter().map(move |value| (at, *value)));
    changes.flat_map(|(at, value)| {
        [&b"ustar\x0000"[..], b"ustar  \0"].map(|magic| {
            let changed = entry(b"src/lib.rs", b'0', b"pub fn f() {}", |header| {
                header[257..265].copy_from_slice(magic);
                header[at] = value;
            });
            let mut bytes = [file("Cargo.toml", b"[package]"), changed, file("z", b"last")].concat();
            tar::end(&mut bytes);
            bytes
        })
    })
}

/// An endless stream of archives.
pub(crate) struct Generator {
    state: u64,
}

impl Iterator for Generator {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.archive();
        if self.chance(2) {
            for _ in 0..=self.below(2) {
                self.mutate(&mut bytes);
            }
            if !self.chance(4) {
                tar::mend_all(&mut bytes);
            }
        }
        Some(if self.chance(4) { tar::gzip_stored(&bytes) } else { bytes })
    }
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        (self.random() % bound as u64) as usize
    }

    /// True once in `times`.
    fn chance(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn archive(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.chance(3) {
            bytes.extend(entry(self.pick(&[b"./", b"."]), b'5', b"", |_| {}));
        }
        if self.chance(6) {
            bytes.extend(entry(b"pax_global_header", b'g', b"16 comment=abcd\n", |_| {}));
        }
        let dot = if self.chance(3) { "./" } else { "" };
        bytes.extend(self.file(&format!("{dot}Cargo.toml")));
        for number in 0..self.below(5) {
            bytes.extend(self.entry(dot, number));
        }
        bytes.resize(bytes.len() + (2 + self.below(20)) * BLOCK, 0);
        bytes
    }

    fn entry(&mut self, dot: &str, number: usize) -> Vec<u8> {
        let plain = [format!("src/m{number}.rs"), format!("d{number}/.x"), format!("a-{number}_b/c/d.txt")];
        let telling =
            ["a/", "../a", "/a", "a//b", "src/m0.rs", "SRC/m1.rs", "", ".", "a\nb", "é", "-a", "a b"];
        let path = if self.chance(12) {
            self.pick(&telling).to_owned()
        } else {
            format!("{dot}{}", plain[self.below(3)])
        };
        match self.below(8) {
            0 => entry(format!("{path}.d/").as_bytes(), b'5', b"", |_| {}),
            1 => {
                let records: [&[u8]; 6] = [
                    b"28 mtime=1700000000.1234567\n",
                    b"11 mtime=1\n21 comment=something\n",
                    b"20 atime=1500000000\n20 ctime=1500000000\n",
                    b"9 path=b\n",
                    b"10 size=0\n",
                    b"13 mtime=1e3\n",
                ];
                let known = if self.chance(6) { self.below(6) } else { self.below(3) };
                [entry(b"PaxHeaders/x", b'x', records[known], |_| {}), self.file(&path)].concat()
            }
            2 => {
                let prefix = self.pick(&["deep", "deep/er", "deep/er/still", "./deep"]).as_bytes();
                let content = self.content();
                let name = format!("p{number}.rs");
                entry(name.as_bytes(), b'0', &content, |h| h[345..345 + prefix.len()].copy_from_slice(prefix))
            }
            3 if self.chance(4) => {
                let kind = b"1234567LKSVMDNXA"[self.below(16)];
                entry(path.as_bytes(), kind, b"", |_| {})
            }
            _ => self.file(&path),
        }
    }

    fn content(&mut self) -> Vec<u8> {
        let length = [0, 1, 511, 512, 513, 1024, 1300][self.below(7)];
        (0..length).map(|_| self.random() as u8).collect()
    }

    /// A file as one of the usual writers would write it.
    fn file(&mut self, path: &str) -> Vec<u8> {
        let content = self.content();
        let kind = if self.chance(5) { 0 } else { b'0' };
        let mode = self.pick(&[b"0000644\0", b"0000755\0", b"000644 \0", b"0000600 ", b"00000644"]);
        let owner = self.pick(&[b"0001750\0", b"\0\0\0\0\0\0\0\0", b"001750 \0", b"7777777\0"]);
        let time = self.pick(&[b"14524770000\0", b"00000000000\0", b"14524770000 ", b"77777777777\0"]);
        let is_gnu = self.chance(3);
        let device = self.pick(&[b"0000000\0", b"\0\0\0\0\0\0\0\0", b"000000 \0"]);
        let names = self.chance(3);
        entry(path.as_bytes(), kind, &content, |header| {
            header[100..108].copy_from_slice(mode);
            header[108..116].copy_from_slice(owner);
            header[116..124].copy_from_slice(owner);
            header[136..148].copy_from_slice(time);
            header[329..337].copy_from_slice(device);
            header[337..345].copy_from_slice(device);
            if names {
                header[265..269].copy_from_slice(b"user");
                header[297..302].copy_from_slice(b"group");
            }
            if is_gnu {
                header[257..265].copy_from_slice(b"ustar  \0");
            }
        })
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() < BLOCK {
            return;
        }
        let block = self.below(bytes.len() / BLOCK) * BLOCK;
        match self.below(10) {
            0 => bytes.truncate(block + self.pick(&[&0, &1, &BLOCK])),
            1 => {
                let copy = bytes[block..block + BLOCK].to_vec();
                bytes.splice(block..block, copy);
            }
            2 => drop(bytes.drain(block..block + BLOCK)),
            3 => drop(bytes.splice(block..block, [0; BLOCK])),
            4 => {
                let at = self.below(bytes.len());
                bytes[at] = self.random() as u8;
            }
            5 | 6 => bytes[block + self.below(BLOCK)] = TELLING[self.below(TELLING.len())],
            7 => bytes[block + 124 + self.below(12)] = b'0' + self.below(8) as u8,
            8 => bytes[block + 156] = self.random() as u8,
            _ => bytes[block + 345 + self.below(155)] = b'a',
        }
    }
}
