//! Benign builds alone and beside stress inputs, in turns, on one machine and in one run.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::input::StressInput;
use crate::installed::Installed;

/// The benign functions: one without dependencies, one with derived serialisation.
pub const EXAMPLES: [&str; 2] = ["hello", "json-summary"];
/// How long a stress input burns before anything is measured beside it: longer than it takes to be sent
/// behind the others.
const BURN_FIRST: Duration = Duration::from_secs(8);

/// How long builds of one example took.
#[derive(Debug, Default, Clone)]
pub struct Times {
    /// With nothing of ours beside them.
    pub alone: Vec<Duration>,
    /// With stress inputs in the other lanes.
    pub beside: Vec<Duration>,
}

impl Times {
    /// Median beside stress inputs by median alone.
    pub fn ratio(&self) -> f64 {
        median(&self.beside).as_secs_f64() / median(&self.alone).as_secs_f64()
    }
}

/// The middle one, or the mean of the two in the middle.
pub fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    match sorted.len() {
        0 => Duration::ZERO,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2,
    }
}

/// Measures in rounds: `builds` of each example alone, then as many beside `lanes` lanes of one
/// stress input, another stress input each round.
pub fn measure(
    installed: &Installed,
    inputs: &[StressInput],
    rounds: usize,
    builds: usize,
    lanes: usize,
) -> anyhow::Result<[Times; EXAMPLES.len()]> {
    let mut times: [Times; EXAMPLES.len()] = Default::default();
    let place = tempfile::tempdir()?;
    benign(installed, place.path(), 1, |_, _| {})?;
    for input in inputs.iter().cycle().take(rounds) {
        benign(installed, place.path(), builds, |example, time| times[example].alone.push(time))?;
        let package = input.write_into(place.path())?;
        beside(installed, &package, lanes, || {
            benign(installed, place.path(), builds, |example, time| times[example].beside.push(time))
        })?;
    }
    Ok(times)
}

fn benign(
    installed: &Installed,
    scratch: &Path,
    builds: usize,
    mut took: impl FnMut(usize, Duration),
) -> anyhow::Result<()> {
    for _ in 0..builds {
        for (number, example) in EXAMPLES.iter().enumerate() {
            let package: PathBuf = mfaas_harness::checkout().join("examples").join(example);
            let start = Instant::now();
            let output = installed.check(&package, scratch).output().context("the builder")?;
            took(number, start.elapsed());
            if !output.status.success() {
                bail!("{example} is not admitted: {}", String::from_utf8_lossy(&output.stdout));
            }
        }
    }
    Ok(())
}

/// Runs `work` while each lane checks the stress input, again and again.
fn beside(
    installed: &Installed,
    input: &Path,
    lanes: usize,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let burning: Vec<_> = (0..lanes).map(|_| scope.spawn(|| burn(installed, input, &over))).collect();
        std::thread::sleep(BURN_FIRST);
        let worked = work();
        over.store(true, Ordering::Release);
        for lane in burning {
            match lane.join() {
                Ok(burnt) => burnt?,
                Err(_) => bail!("a lane panicked"),
            }
        }
        worked
    })
}

/// A builder that is killed takes its sandbox with it.
fn burn(installed: &Installed, input: &Path, over: &AtomicBool) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    while !over.load(Ordering::Acquire) {
        let mut command = installed.check(input, scratch.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        while child.try_wait()?.is_none() {
            if over.load(Ordering::Acquire) {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
