//! `mfaas bench`: what a deploy costs beside the bare compiler, the node runtime beside what it is compared to, and
//! performance isolation on this machine or a simulated one. The measuring is done by programs of their own.

mod admission;
mod isolation;
mod node;
mod program;

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// Warm deploys beside bare rustc with the same flags: wall clock and CPU of all programs.
    ///
    /// For example: `mfaas bench deploy examples/hello --rounds 5`
    Deploy(admission::BenchDeploy),
    /// Admission alone, stage by stage, beside bare rustc with the same flags: no server, no node.
    ///
    /// For example: `mfaas bench admission examples/hello`
    Admission(admission::BenchAdmission),
    /// The node runtime beside what it is compared to: a bare ring, dlopen, processes, wasmtime, hyper.
    ///
    /// For example: `mfaas bench node`
    Node(node::BenchNode),
    /// A tenant at a low load beside one that takes what it can, with a row for each way to do so.
    ///
    /// Calls without a pause, long calls, log lines, large and slow bodies, connections: each through the
    /// ingress, on a node with worker pools per tenant and on one with a shared pool. For example:
    /// `mfaas bench noisy-neighbour --rows calls,long-calls`
    NoisyNeighbour(node::BenchNoisyNeighbour),
    /// Functions with data: what it costs a call to wait.
    ///
    /// For example: `mfaas bench data --rows suspend`
    Data(node::BenchData),
    /// Performance isolation: what calls feel of work that can wait, and what that gets done.
    ///
    /// On this machine: a real node beside threads that compute, threads that use a disk, and two compilations, alone and under
    /// each way to hold those back, in turn within one run; as root, since groups and classes are set. With `--simulation`: the
    /// machine and the cluster of "PerfIso" (USENIX ATC 2018), over the control code that runs on nodes. For example:
    /// `mfaas bench isolation --rows builds --svg isolation.svg`
    Isolation(isolation::BenchIsolation),
    /// How many cores the mode `blind` of performance isolation has to keep idle here, at the highest load.
    ///
    /// A real node beside threads that compute, with each number of buffer cores in turn within one run; as root, as for
    /// `mfaas bench isolation`. For example: `mfaas bench buffer-cores --workers polling`
    BufferCores(isolation::BenchBufferCores),
}

impl Bench {
    /// Measures and reports; exit code 1 when an aim is missed.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            BenchCommand::Deploy(bench) => bench.run(context),
            BenchCommand::Admission(bench) => bench.run(context),
            BenchCommand::Node(bench) => bench.run(context),
            BenchCommand::NoisyNeighbour(bench) => bench.run(context),
            BenchCommand::Data(bench) => bench.run(context),
            BenchCommand::Isolation(bench) => bench.run(context),
            BenchCommand::BufferCores(bench) => bench.run(context),
        }
    }
}
