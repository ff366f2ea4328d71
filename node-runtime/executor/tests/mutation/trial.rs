//! Images with the processes that run their mutants; each mutant is offered, run, judged and counted.

use std::fmt::Write as _;

use iced_x86::{Decoder, DecoderOptions};
use mfaas_ident::Digest;

use crate::base::{Base, bundle_of};
use crate::block::{SIGNAL, Start};
use crate::judge::{Escape, Inside, judge};
use crate::mutant::{Mutant, REVISION, bundles_of, mutant, trapped};
use crate::random::Random;
use crate::snippets::SNIPPETS;
use crate::start::{Halves, record, start};
use crate::state::State;
use crate::window::{BUNDLE_BYTES, CODE};
use crate::zygote::{Ended, Run, Zygote};

/// How long a run may go on although its timer struck, in milliseconds. A busy machine is no escape.
const PATIENCE_MS: i32 = 20_000;
/// For what takes microseconds: what a request executes must not depend on the machine.
const PATIENT_US: u64 = 900_000;
/// One mutant in so many is of the second image, which is large.
const SECOND_SHARE: usize = 64;

/// Images with their processes.
pub(crate) struct Trial {
    bases: Vec<(Base, Zygote)>,
    seed: u64,
    extent: Extent,
}

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// One refused mutant in so many is run all the same.
    pub(crate) control_share: usize,
    /// How long a run may take, in microseconds. A loop takes all of it.
    pub(crate) time_us: u64,
}

/// What became of one mutant.
pub(crate) struct Outcome {
    /// The image and the request, the rule that refused it.
    pub(crate) what: String,
    pub(crate) refused: Option<String>,
    /// None if it was not run.
    pub(crate) end: Option<Result<Inside, Escape>>,
    /// Bytes and registers, for people.
    pub(crate) details: String,
}

impl Trial {
    pub(crate) fn new(bases: Vec<Base>, seed: u64, extent: Extent) -> Self {
        let started = bases.into_iter().map(|base| {
            let zygote = Zygote::start(&base);
            (base, zygote)
        });
        let mut trial = Self { bases: started.collect(), seed, extent };
        for number in 0..trial.bases.len() {
            trial.look_at_what_is_mapped(number);
            trial.follow(number);
        }
        trial
    }

    /// Stands for all that mutants are made of.
    pub(crate) fn origin(&self) -> String {
        let mut all = REVISION.to_le_bytes().to_vec();
        all.extend(SNIPPETS.concat().iter().flat_map(|byte| byte.to_le_bytes()));
        for (base, _) in &self.bases {
            all.extend_from_slice(base.own());
            all.extend(base.executed.iter().flatten().flat_map(|number| number.to_le_bytes()));
        }
        Digest::of(&all).to_string()
    }

    /// Above the window there is nothing but the block, and the page that the kernel shows to all.
    fn look_at_what_is_mapped(&self, number: usize) {
        let (_, zygote) = &self.bases[number];
        let maps = zygote.maps();
        let start = |line: &str| {
            let first = line.split('-').next().unwrap_or_default();
            usize::from_str_radix(first, 16).expect("an address")
        };
        let own = zygote.block..zygote.block + crate::block::BLOCK_BYTES;
        let strange: Vec<&str> = maps
            .lines()
            .filter(|line| start(line) as u64 >= crate::window::GUARD_END && !own.contains(&start(line)))
            .filter(|line| !line.ends_with("[vsyscall]"))
            .collect();
        assert!(strange.is_empty() && maps.lines().count() > 8, "{strange:?}\n{maps}");
    }

    /// Finds out which bundles each request executes: with traps in its place a bundle ends the run. The
    /// image itself has to return, whatever the upper halves of its registers are.
    fn follow(&mut self, number: usize) {
        let (base, zygote) = &mut self.bases[number];
        let mut random = Random::of(0, 0);
        for request in 0..base.requests.len() {
            for halves in [Halves::Zero, Halves::Outside(0x8123_4567), Halves::Outside(0x1234)] {
                let start = start(base.entry, halves, PATIENT_US, &mut random);
                let page = record(&base.requests[request], halves);
                let ended = run(base, zygote, &[], &page, start, PATIENCE_MS);
                let end = judge(&ended, &base.code, true, zygote.block);
                assert_eq!(end, Ok(Inside::Returned), "{} {request} {halves:?}", base.name);
            }
            let halves = Halves::Outside(0x1234);
            let start = start(base.entry, halves, PATIENT_US, &mut random);
            let page = record(&base.requests[request], halves);
            let executed: Vec<usize> = bundles_of(base)
                .into_iter()
                .filter(|bundle| {
                    let report = run(base, zygote, &[trapped(*bundle)], &page, start, PATIENCE_MS).report;
                    let at = report.registers[16].wrapping_sub(1) as usize;
                    let is_trap = report.kind == SIGNAL && report.number as i32 == libc::SIGTRAP;
                    is_trap && bundle_of(at.wrapping_sub(CODE)) == *bundle
                })
                .collect();
            let holds = |place: usize| executed.binary_search(&bundle_of(place)).is_ok();
            let numbers = base.instructions.iter().enumerate().filter(|(_, one)| holds(one.0));
            base.executed[request] = numbers.map(|(number, _)| number).collect();
        }
    }

    /// How much of each image is executed, for people.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for (base, _) in &self.bases {
            let executed: Vec<usize> = base.executed.iter().map(Vec::len).collect();
            let (bytes, all) = (base.own().len(), base.instructions.len());
            writeln!(text, "{}: {bytes} bytes of code, {all} instructions, executed {executed:?}", base.name)
                .expect("writing to a string");
        }
        text
    }

    /// Offers the mutant of an index, runs it if it passes (or now and then if not), and counts.
    pub(crate) fn offer(&mut self, index: u64, state: &mut State) {
        let outcome = self.try_one(index, false);
        state.count("offered");
        let part = match &outcome.refused {
            None => "accepted",
            Some(rule) => {
                state.count(&format!("refused, {rule}"));
                "control"
            }
        };
        let Some(end) = outcome.end else {
            if outcome.refused.is_none() {
                state.count("unchanged");
            }
            return;
        };
        match end {
            Ok(inside) => state.count(&format!("{part}: {inside}")),
            Err(escape) => {
                state.count(&format!("{part}, escape: {escape}"));
                if part == "accepted" {
                    state.escapes.push((index, format!("{escape}, {}", outcome.what)));
                }
            }
        }
    }

    /// Makes the mutant of an index and runs it, or if it is refused and no control, does not.
    pub(crate) fn try_one(&mut self, index: u64, everything: bool) -> Outcome {
        let mut random = Random::of(self.seed, index);
        let is_second = random.one_in(SECOND_SHARE);
        let number = usize::from(is_second).min(self.bases.len() - 1);
        let (base, zygote) = &mut self.bases[number];
        let request = random.below(base.requests.len());
        let mutant = mutant(base, request, &mut random);
        let refused = base.verify(&mutant.code).err();
        let is_control = refused.is_some() && random.one_in(self.extent.control_share);
        let halves = Halves::any(&mut random);
        let start = start(base.entry, halves, self.extent.time_us, &mut random);
        let page = record(&base.requests[request], halves);
        let mut outcome = Outcome {
            what: format!("{} with request {request}", base.name),
            refused: refused.map(|violation| violation.rule.to_string()),
            end: None,
            details: String::new(),
        };
        if mutant.changes.is_empty() || refused.is_some() && !is_control && !everything {
            return outcome;
        }
        let ended = run(base, zygote, &mutant.changes, &page, start, PATIENCE_MS);
        let end = judged(base, &mutant, &ended, refused.is_none(), zygote.block);
        if everything {
            outcome.details = details(base, &mutant, &ended);
        }
        outcome.end = Some(end);
        outcome
    }

    /// Runs code at the entry of the first image that nobody has verified.
    pub(crate) fn run_by_hand(
        &mut self,
        bytes: &[u8],
        halves: Halves,
        time_us: u64,
        patience_ms: i32,
    ) -> Result<Inside, Escape> {
        let (base, zygote) = &mut self.bases[0];
        let mutant = crate::mutant::with_entry(base, bytes);
        let mut random = Random::of(self.seed, u64::MAX);
        let start = start(base.entry, halves, time_us, &mut random);
        let page = record(&base.requests[0], halves);
        let ended = run(base, zygote, &mutant.changes, &page, start, patience_ms);
        judged(base, &mutant, &ended, false, zygote.block)
    }
}

fn run(
    base: &Base,
    zygote: &mut Zygote,
    changes: &[(usize, Vec<u8>)],
    record: &[u8],
    start: Start,
    patience_ms: i32,
) -> Ended {
    zygote.run(base, &Run { changes, record, start, patience_ms })
}

/// Judges a run with the code that it had.
fn judged(
    base: &mut Base,
    mutant: &Mutant,
    ended: &Ended,
    verified: bool,
    block: usize,
) -> Result<Inside, Escape> {
    let own = base.own().to_vec();
    let segment = base.segment.clone();
    base.code[segment.clone()].copy_from_slice(&mutant.code);
    let end = judge(ended, &base.code, verified, block);
    base.code[segment].copy_from_slice(&own);
    end
}

/// What is different in a mutant, and the registers at the end.
fn details(base: &Base, mutant: &Mutant, ended: &Ended) -> String {
    let mut text = String::new();
    let mut show = |title: &str, at: usize, bytes: &[u8]| {
        writeln!(text, "{title} {:#x}: {bytes:02x?}", CODE + at).expect("writing to a string");
        let decoder = Decoder::with_ip(64, bytes, (CODE + at) as u64, DecoderOptions::NONE);
        for one in decoder {
            let place = one.ip() as usize - CODE - at;
            let own = &bytes[place..place + one.len()];
            writeln!(text, "    {:#x} {:?} {own:02x?}", one.ip(), one.code()).expect("writing to a string");
        }
    };
    for (at, bytes) in &mutant.changes {
        show("was", *at, &base.code[*at..*at + BUNDLE_BYTES]);
        show("is", *at, bytes);
    }
    writeln!(text, "{:#x?}", ended.report.start).expect("writing to a string");
    let mut report = ended.report;
    report.setting.ends = [0; 256];
    writeln!(text, "{:x?}", report).expect("writing to a string");
    text
}
