//! What the figures were taken on: a ratio travels between machines better than a time does, but
//! neither travels without these lines.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use serde::Serialize;

/// One machine, as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Cores that are on line.
    pub cores: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Under a hypervisor; ticks and signals cost more there.
    pub virtualised: bool,
    /// Whether processor and kernel offer protection keys.
    pub protection_keys: bool,
    /// Whether the time stamp counter runs evenly on every core; stamps of two cores mean little without.
    pub steady_counter: bool,
    /// Weaknesses of the processor that the kernel works around or leaves open: `name: what it says`.
    pub mitigations: Vec<String>,
    /// Kernel release and version.
    pub kernel: String,
    /// Policy of transparent huge pages.
    pub huge_pages: String,
    /// Commit of the checkout that the program was built in, with `+` if files differ from it.
    pub commit: String,
}

impl Machine {
    /// Reads it from /proc and /sys. An error on a processor that the sides cannot run on.
    pub fn read() -> anyhow::Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let flag = |name: &str| flags(&cpuinfo).any(|flag| flag == name);
        ensure!(cfg!(target_arch = "x86_64") && flag("rdtscp"), "this needs an x86-64 processor with rdtscp");
        Ok(Self {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_mib: meminfo_kib("MemTotal") >> 10,
            virtualised: flag("hypervisor"),
            protection_keys: flag("ospke"),
            steady_counter: flag("constant_tsc") && flag("nonstop_tsc"),
            mitigations: mitigations(),
            kernel: kernel(),
            huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            commit: commit(Path::new(env!("CARGO_MANIFEST_DIR"))),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = |yes: bool| if yes { "yes" } else { "no" };
        writeln!(f, "machine     {}, {} cores, {} MiB", self.cpu, self.cores, self.memory_mib)?;
        writeln!(
            f,
            "            virtualised: {}, protection keys: {}, even time stamps: {}, huge pages: {}",
            is(self.virtualised),
            is(self.protection_keys),
            is(self.steady_counter),
            self.huge_pages
        )?;
        for mitigation in &self.mitigations {
            writeln!(f, "            {mitigation}")?;
        }
        writeln!(f, "kernel      {}", self.kernel)?;
        write!(f, "commit      {}", self.commit)
    }
}

/// Load averages of 1, 5 and 15 minutes; not numbers when the kernel does not say.
pub fn load_average() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut words = text.split_whitespace().map(|word| word.parse().unwrap_or(f64::NAN));
    std::array::from_fn(|_| words.next().unwrap_or(f64::NAN))
}

/// A row of /proc/meminfo, in KiB; 0 when there is none.
fn meminfo_kib(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = field(&text, name).and_then(|value| value.split_whitespace().next());
    value.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The value behind `name:` in a text of such lines.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

fn flags(cpuinfo: &str) -> impl Iterator<Item = &str> {
    field(cpuinfo, "flags").unwrap_or_default().split_whitespace()
}

fn mitigations() -> Vec<String> {
    let Ok(directory) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return vec![] };
    let mut lines: Vec<String> = directory
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter_map(|(name, path)| Some((name, fs::read_to_string(path).ok()?)))
        .filter(|(_, says)| says.trim() != "Not affected")
        .map(|(name, says)| format!("{name}: {}", says.trim()))
        .collect();
    lines.sort();
    lines
}

fn kernel() -> String {
    format!("{} {}", line("/proc/sys/kernel/osrelease"), line("/proc/sys/kernel/version"))
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn commit(directory: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain"]).is_none_or(|text| !text.is_empty());
    if changed { format!("{commit}+") } else { commit }
}
