//! Asks the processor about many instructions and counts what it says.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{self, Display};

use iced_x86::{Code, Instruction};
use mfaas_inspect::verify::Rule;

use crate::instructions::{self, Bytes, Flow, Opinion, flow, opinion, relative_address};
use crate::mutants::Mutant;
use crate::processor::{Ending, GUARD, Processor, Trial};

/// So many instructions are asked about together.
const BATCH: usize = 1 << 14;
/// Examples that a report shows of one kind.
const EXAMPLES_MAX: usize = 3;
/// An operand is no longer than this, in bytes.
const OPERAND_BYTES_MAX: u64 = 64;

/// How an instruction ends of which both say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// The processor stands at the next instruction.
    Stepped,
    /// It stands where the branch goes.
    Branched,
    /// It will repeat it.
    Repeats,
    /// `int3`.
    Breakpoint,
    /// An invalid opcode, after all of it was fetched.
    Invalid,
    /// A fault of memory that is not there.
    PageFault,
    /// A fault of protection or alignment.
    Protection,
    /// A division, or a number.
    Arithmetic,
}

/// What the processor says about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agrees(End),
    /// An invalid opcode, before all of it was fetched: the processor lacks it, and says nothing of its length.
    Lacking,
    Disagrees(&'static str),
}

/// An instruction with the length that is claimed for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) bytes: Bytes,
    flow: Flow,
    relative: Option<u64>,
}

impl Claim {
    pub(crate) fn of(bytes: Bytes, instruction: &Instruction) -> Self {
        Self { bytes, flow: flow(instruction), relative: relative_address(instruction) }
    }

    /// The same instruction, of which a wrong length is claimed: one byte less, or one more than it has.
    pub(crate) fn wrong(bytes: Bytes) -> Vec<Self> {
        let slice = bytes.as_slice();
        let shorter = (slice.len() > 1).then(|| Bytes::of(&slice[..slice.len() - 1]));
        let longer = (slice.len() < bytes.all.len()).then(|| Bytes::of(&[slice, &[0x90]].concat()));
        let claims = shorter.into_iter().chain(longer).filter_map(|wrong| {
            let start = GUARD - u64::from(wrong.len);
            let instruction = instructions::decode(slice, start)?;
            Some(Self { bytes: wrong, ..Self::of(bytes, &instruction) })
        });
        claims.collect()
    }

    /// All of it before the guard, and all but the last byte.
    fn trials(&self) -> [Trial; 2] {
        let len = usize::from(self.bytes.len);
        let mut bytes = [0; _];
        bytes[..len].copy_from_slice(self.bytes.as_slice());
        let repeats = self.flow == Flow::Repeated;
        [Trial { bytes, on_page: len, repeats }, Trial { bytes, on_page: len - 1, repeats }]
    }

    fn verdict(&self, whole: Ending, cut: Ending) -> Verdict {
        let end = match self.end(whole) {
            Ok(end) => end,
            Err(why) => return Verdict::Disagrees(why),
        };
        let start = GUARD - u64::from(self.bytes.len) + 1;
        if is_fetch(cut) && cut.at == start && cut.address == GUARD {
            Verdict::Agrees(end)
        } else if end == End::Invalid && cut.trap == INVALID_OPCODE && self.flow != Flow::Raises {
            Verdict::Lacking
        } else {
            Verdict::Disagrees("it is shorter: its last byte is not fetched")
        }
    }

    /// How it ended with all of its bytes before the guard.
    fn end(&self, whole: Ending) -> Result<End, &'static str> {
        let (start, is_still) =
            (GUARD - u64::from(self.bytes.len), whole.at == GUARD - u64::from(self.bytes.len));
        match whole.trap {
            _ if is_fetch(whole) && is_still => Err("it is longer: the next byte is fetched"),
            DEBUG => self.step(whole, start),
            BREAKPOINT if whole.at == GUARD => Ok(End::Breakpoint),
            INVALID_OPCODE if is_still => Ok(End::Invalid),
            PAGE_FAULT if is_still => match self.relative {
                Some(address) if !(address..address + OPERAND_BYTES_MAX).contains(&whole.address) => {
                    Err("it reads or writes elsewhere")
                }
                _ => Ok(End::PageFault),
            },
            STACK_FAULT | PROTECTION | ALIGNMENT if is_still => Ok(End::Protection),
            DIVISION | NUMBERS if is_still => Ok(End::Arithmetic),
            trap if trap == Ending::DIED.trap => Err("the process ended"),
            _ => Err("it ends in another way"),
        }
    }

    fn step(&self, whole: Ending, start: u64) -> Result<End, &'static str> {
        let returns_here = |calls: bool| !calls || whole.top == GUARD;
        match self.flow {
            Flow::Next | Flow::Repeated if whole.at == GUARD => Ok(End::Stepped),
            Flow::Repeated if whole.at == start => Ok(End::Repeats),
            Flow::Direct { falls: true, .. } if whole.at == GUARD => Ok(End::Stepped),
            Flow::Direct { target, calls, .. } if whole.at == target && returns_here(calls) => {
                Ok(End::Branched)
            }
            Flow::Elsewhere { calls } if returns_here(calls) => Ok(End::Branched),
            _ => Err("the next instruction is elsewhere"),
        }
    }
}

/// Exceptions by their numbers.
const DIVISION: i64 = 0;
const DEBUG: i64 = 1;
const BREAKPOINT: i64 = 3;
const INVALID_OPCODE: i64 = 6;
const STACK_FAULT: i64 = 12;
const PROTECTION: i64 = 13;
const PAGE_FAULT: i64 = 14;
const ALIGNMENT: i64 = 17;
const NUMBERS: i64 = 19;

/// Whether the next page was to be executed, not read.
fn is_fetch(ending: Ending) -> bool {
    /// The bit of the error code that says so.
    const INSTRUCTION: i64 = 1 << 4;
    ending.trap == PAGE_FAULT && ending.error & INSTRUCTION != 0
}

/// What the processor says about each claim.
pub(crate) fn ask(processor: &mut Processor, claims: &[Claim]) -> Vec<Verdict> {
    let trials: Vec<Trial> = claims.iter().flat_map(Claim::trials).collect();
    let endings = processor.judge(&trials);
    let pairs = endings.as_chunks::<2>().0;
    claims.iter().zip(pairs).map(|(claim, [whole, cut])| claim.verdict(*whole, *cut)).collect()
}

/// What was counted of a kind, with examples.
#[derive(Default)]
struct Tally {
    count: u64,
    examples: Vec<String>,
}

impl Tally {
    fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example());
        }
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, like {}", self.count, self.examples.join(" | "))
    }
}

/// Counts of a survey.
pub(crate) struct Survey {
    processor: Processor,
    /// Also instructions that the verifier refuses, as information.
    with_refused: bool,
    seen: HashSet<Bytes>,
    waiting: Vec<(Claim, Code, Option<Rule>)>,
    tried: u64,
    refused: u64,
    no_instruction: u64,
    accepted_codes: BTreeSet<u16>,
    agreed: BTreeMap<End, u64>,
    invalid: BTreeMap<String, Tally>,
    lacking: BTreeMap<String, Tally>,
    disagreed: BTreeMap<&'static str, Tally>,
    refused_agreed: u64,
    refused_disagreed: BTreeMap<(Rule, &'static str), Tally>,
}

impl Survey {
    pub(crate) fn new(with_refused: bool) -> Self {
        Self {
            processor: Processor::new(),
            with_refused,
            seen: HashSet::new(),
            waiting: Vec::new(),
            tried: 0,
            refused: 0,
            no_instruction: 0,
            accepted_codes: BTreeSet::new(),
            agreed: BTreeMap::new(),
            invalid: BTreeMap::new(),
            lacking: BTreeMap::new(),
            disagreed: BTreeMap::new(),
            refused_agreed: 0,
            refused_disagreed: BTreeMap::new(),
        }
    }

    /// Instructions that were accepted.
    pub(crate) fn accepted(&mut self, instructions: &[Bytes]) {
        for bytes in instructions {
            self.add(*bytes, None);
        }
        self.ask();
    }

    /// Bytes of which nobody has said anything; answers how many of them the instruction takes.
    pub(crate) fn mutant(&mut self, mutant: &Mutant) -> u64 {
        match opinion(mutant) {
            Opinion::Accepted(bytes) => {
                self.add(bytes, None);
                bytes.len.into()
            }
            Opinion::Refused(bytes, rule) => {
                self.refused += 1;
                if self.with_refused && !touches_threads(&bytes) {
                    self.add(bytes, Some(rule));
                }
                bytes.len.into()
            }
            Opinion::NoInstruction => {
                self.no_instruction += 1;
                1
            }
        }
    }

    fn add(&mut self, bytes: Bytes, refused: Option<Rule>) {
        self.tried += u64::from(refused.is_none());
        let Some(instruction) = bytes.decoded().filter(|_| self.seen.insert(bytes)) else { return };
        self.waiting.push((Claim::of(bytes, &instruction), instruction.code(), refused));
        if self.waiting.len() >= BATCH {
            self.ask();
        }
    }

    /// Asks about all that wait.
    pub(crate) fn ask(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let claims: Vec<Claim> = waiting.iter().map(|(claim, ..)| *claim).collect();
        let verdicts = ask(&mut self.processor, &claims);
        for ((claim, code, refused), verdict) in waiting.into_iter().zip(verdicts) {
            match refused {
                None => self.count(&claim, code, verdict),
                Some(rule) => self.count_refused(&claim, code, rule, verdict),
            }
        }
    }

    fn count(&mut self, claim: &Claim, code: Code, verdict: Verdict) {
        self.accepted_codes.insert(code as u16);
        let features = || format!("{code:?} {:?}", code.cpuid_features());
        match verdict {
            Verdict::Agrees(end) => {
                *self.agreed.entry(end).or_default() += 1;
                if end == End::Invalid && code != Code::Ud2 {
                    self.invalid.entry(features()).or_default().add(|| claim.bytes.text());
                }
            }
            Verdict::Lacking => self.lacking.entry(features()).or_default().add(|| claim.bytes.text()),
            Verdict::Disagrees(why) => {
                self.disagreed.entry(why).or_default().add(|| format!("{code:?} {}", claim.bytes.text()));
            }
        }
    }

    fn count_refused(&mut self, claim: &Claim, code: Code, rule: Rule, verdict: Verdict) {
        match verdict {
            Verdict::Agrees(_) | Verdict::Lacking => self.refused_agreed += 1,
            Verdict::Disagrees(why) => self
                .refused_disagreed
                .entry((rule, why))
                .or_default()
                .add(|| format!("{code:?} {}", claim.bytes.text())),
        }
    }

    /// Accepted instructions, each counted once.
    pub(crate) fn agreements(&self) -> u64 {
        self.agreed.values().sum()
    }

    /// Accepted instructions of which the processor says something else than the verifier.
    pub(crate) fn disagreements(&self) -> u64 {
        self.disagreed.values().map(|tally| tally.count).sum()
    }

    /// Accepted instructions that this processor does not have.
    pub(crate) fn lacking(&self) -> u64 {
        self.lacking.values().map(|tally| tally.count).sum()
    }
}

impl Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distinct = self.agreements() + self.disagreements() + self.lacking();
        writeln!(
            f,
            "accepted: {} instructions, {distinct} distinct, of {} codes",
            self.tried,
            self.accepted_codes.len()
        )?;
        writeln!(f, "agreed: {}", self.agreements())?;
        for (end, count) in &self.agreed {
            writeln!(f, "  {end:?}: {count}")?;
        }
        for (code, tally) in &self.invalid {
            writeln!(f, "  of these an invalid opcode to this processor: {code}: {tally}")?;
        }
        writeln!(f, "not judged, since this processor has no such instruction: {}", self.lacking())?;
        for (code, tally) in &self.lacking {
            writeln!(f, "  {code}: {tally}")?;
        }
        writeln!(f, "disagreed: {}", self.disagreements())?;
        for (why, tally) in &self.disagreed {
            writeln!(f, "  {why}: {tally}")?;
        }
        writeln!(f, "refused by the verifier: {}; no instruction: {}", self.refused, self.no_instruction)?;
        if self.with_refused {
            let disagreed: u64 = self.refused_disagreed.values().map(|tally| tally.count).sum();
            writeln!(
                f,
                "  for information, of refused ones: agreed {}, disagreed {disagreed}",
                self.refused_agreed
            )?;
        }
        for ((rule, why), tally) in &self.refused_disagreed {
            writeln!(f, "    {rule}: {why}: {tally}")?;
        }
        Ok(())
    }
}

/// Whether it uses or moves the bases by which a program finds what belongs to its threads.
fn touches_threads(bytes: &Bytes) -> bool {
    bytes.as_slice().iter().any(|byte| matches!(byte, 0x64 | 0x65))
}
