//! Every limit of the pipeline, from upload to artifact, with its unit and its reason.

use mfaas_ident::{Budget, Class, MemoryLimit};

/// Limits of the archive reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Upload size.
    pub upload_bytes_max: u64,
    /// Size of the tar inside, headers and padding included.
    pub unpacked_bytes_max: u64,
    /// Files and directories, those included that a file's path implies.
    pub entries_max: usize,
    /// Length of one path.
    pub path_bytes_max: usize,
    /// Components of one path.
    pub path_depth_max: usize,
}

/// The archive limits in force.
pub const ARCHIVE: ArchiveLimits = ArchiveLimits {
    upload_bytes_max: 10 << 20,
    unpacked_bytes_max: 64 << 20,
    entries_max: 2_000,
    path_bytes_max: 200,
    path_depth_max: 16,
};

/// Limits of Cargo.toml, before it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestLimits {
    /// Size of the file.
    pub bytes_max: usize,
    /// Nesting of tables, arrays and dotted keys.
    pub depth_max: usize,
    /// Keys of all tables together.
    pub keys_max: usize,
    /// Dependencies named.
    pub dependencies_max: usize,
}

/// The manifest limits in force.
pub const MANIFEST: ManifestLimits =
    ManifestLimits { bytes_max: 64 << 10, depth_max: 16, keys_max: 1_000, dependencies_max: 64 };

/// Limits of the lexer. Measured on rustc 1.95: 3,000 `{` or 20,000 `(` overflow its stack, so
/// nesting is bounded an order of magnitude below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LexerLimits {
    /// Size of one `.rs` file.
    pub file_bytes_max: usize,
    /// Size of all `.rs` files together.
    pub total_bytes_max: usize,
    /// Tokens of all files together, white space and comments not counted.
    pub tokens_max: usize,
    /// Open `(`, `[`, `{` at one point.
    pub nesting_max: usize,
    /// Prefix operators (`-`, `!`, `&`, `*`) in a row, and other chains that a parser follows by
    /// recursion.
    pub operator_chain_max: usize,
    /// Depth of one expression, counted from above: operators, calls, casts and `else`s between two
    /// separators, and those of the deepest brackets among them. The compiler takes 20 s for 3,000
    /// and crashes at 20,000, at 2,000 if they are `?`, which therefore count fourfold.
    pub expression_depth_max: usize,
    /// Bytes of one literal.
    pub literal_bytes_max: usize,
    /// Bytes of one identifier.
    pub identifier_bytes_max: usize,
}

/// The lexer limits in force.
pub const LEXER: LexerLimits = LexerLimits {
    file_bytes_max: 4 << 20,
    total_bytes_max: 16 << 20,
    tokens_max: 2_000_000,
    nesting_max: 200,
    operator_chain_max: 200,
    expression_depth_max: 2_000,
    literal_bytes_max: 1 << 20,
    identifier_bytes_max: 255,
};

/// Limits of one command in the build sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CompileLimits {
    /// CPU time of the whole command.
    pub cpu_seconds_max: u64,
    /// Wall time of the whole command.
    pub wall_seconds_max: u64,
    /// Memory of all processes together, and of each.
    pub memory_bytes_max: u64,
    /// Size of each file written.
    pub file_bytes_max: u64,
    /// Bytes taken from stdout and stderr together.
    pub output_bytes_max: u64,
    /// Processes and threads.
    pub processes_max: u64,
    /// Open descriptors of each process.
    pub descriptors_max: u64,
}

impl CompileLimits {
    /// The same with one limit lowered, by its name. `None`: there is no such limit, or the value
    /// is 0 or more than the limit has.
    pub fn lowered(mut self, name: &str, value: u64) -> Option<Self> {
        let limit = match name {
            "cpu_seconds_max" => &mut self.cpu_seconds_max,
            "wall_seconds_max" => &mut self.wall_seconds_max,
            "memory_bytes_max" => &mut self.memory_bytes_max,
            "file_bytes_max" => &mut self.file_bytes_max,
            "output_bytes_max" => &mut self.output_bytes_max,
            "processes_max" => &mut self.processes_max,
            "descriptors_max" => &mut self.descriptors_max,
            _ => return None,
        };
        if value == 0 || value > *limit {
            return None;
        }
        *limit = value;
        Some(self)
    }

    /// The lower of each two limits.
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        Self {
            cpu_seconds_max: self.cpu_seconds_max.min(other.cpu_seconds_max),
            wall_seconds_max: self.wall_seconds_max.min(other.wall_seconds_max),
            memory_bytes_max: self.memory_bytes_max.min(other.memory_bytes_max),
            file_bytes_max: self.file_bytes_max.min(other.file_bytes_max),
            output_bytes_max: self.output_bytes_max.min(other.output_bytes_max),
            processes_max: self.processes_max.min(other.processes_max),
            descriptors_max: self.descriptors_max.min(other.descriptors_max),
        }
    }
}

/// The limits for a tenant's compiler.
pub const COMPILE: CompileLimits = CompileLimits {
    cpu_seconds_max: 30,
    wall_seconds_max: 120,
    memory_bytes_max: 2 << 30,
    file_bytes_max: 256 << 20,
    output_bytes_max: 4 << 20,
    processes_max: 256,
    descriptors_max: 256,
};

/// The stack that the compiler works on. Its own default is 8 MiB, which derives for some ten thousand fields
/// overflow; a deeper one costs nothing until it is used, and memory is bounded anyway.
pub const COMPILER_STACK_BYTES_MAX: u64 = 64 << 20;

/// CPU time after which a sandboxed command lets others go first. Ten times what the compiler takes for
/// a small function.
pub const GIVE_WAY_CPU_SECONDS: u64 = 3;
/// How far it steps back, as a nice value: a tenth of the share of an ordinary process that wants
/// the same core, and all of it when nobody does. Further back, a command could not even die
/// within the time that it has for it: freeing its memory takes CPU time too.
pub const GIVE_WAY_NICE: i32 = 10;

/// How many times as long a command may take where builds give way to calls and may stand still meanwhile: its wall time is a bound
/// for those that wait for nothing, and no verdict about one that was not let run.
pub const STOPPABLE_WALL_FACTOR: u64 = 10;

/// The limits for the trusted job that builds the dependency cache.
pub const DEPENDENCY_BUILD: CompileLimits = CompileLimits {
    cpu_seconds_max: 1_800,
    wall_seconds_max: 3_600,
    memory_bytes_max: 8 << 30,
    file_bytes_max: 1 << 30,
    output_bytes_max: 64 << 20,
    processes_max: 512,
    descriptors_max: 1_024,
};

/// The limits for one compilation or build script of that job, each in a sandbox of its own. Far above what the largest
/// crates of the registry need.
pub const DEPENDENCY_UNIT: CompileLimits = CompileLimits {
    cpu_seconds_max: 600,
    wall_seconds_max: 1_200,
    memory_bytes_max: 2 << 30,
    file_bytes_max: 512 << 20,
    output_bytes_max: 16 << 20,
    processes_max: 256,
    descriptors_max: 1_024,
};
/// How many of them run at once, whatever the machine has: together they need no more than 16 GiB.
pub const DEPENDENCY_UNITS_AT_ONCE_MAX: usize = 8;

/// Limits of a finished image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryLimits {
    /// Size of the file.
    pub file_bytes_max: u64,
    /// Address space of all segments: a 4 MB file can claim 537 MB of `.bss`.
    pub image_bytes_max: u64,
    /// Writable bytes, which are copied back on every call.
    pub writable_bytes_max: u64,
    /// Thread-local bytes.
    pub tls_bytes_max: u64,
    /// Segments, relocations and symbols that an inspector will look at.
    pub relocations_max: usize,
    /// Dynamic symbols.
    pub symbols_max: usize,
}

/// The image limits in force.
pub const BINARY: BinaryLimits = BinaryLimits {
    file_bytes_max: 16 << 20,
    image_bytes_max: 64 << 20,
    writable_bytes_max: 4 << 20,
    tls_bytes_max: 64 << 10,
    relocations_max: 500_000,
    symbols_max: 4_096,
};

/// Attempts at one build before it is given up.
pub const BUILD_ATTEMPTS_MAX: u32 = 3;
/// Builders that a site can demand to make the same from a source: each is a machine that builds everything.
pub const BUILDS_AGREEMENT_MAX: usize = 4;
/// How often another builder is asked for a claim about one deployment; the database has the same bound.
pub const AGREEMENT_ROUNDS_MAX: u8 = 8;
/// How long a builder holds a build without a heartbeat.
pub const LEASE_SECONDS: u32 = 30;
/// How often a builder renews its lease.
pub const HEARTBEAT_SECONDS: u32 = 10;
/// The first pause of a build that a fault of the machine has put back; each further one is twice as long.
pub const POSTPONED_SECONDS_MIN: u32 = 2;
/// The longest such pause: this is how long after the end of a fault a deployment waits at most.
pub const POSTPONED_SECONDS_MAX: u32 = 60;
/// How long a build that the signer wants made under its own rules is kept for a builder that has them.
pub const REBUILD_PREFERRED_SECONDS: u32 = 600;
/// Free bytes that a builder's scratch directory has to have for each build: twice what the compiler may write, and the
/// source. With less a builder takes no build, and what its compiler does not finish is not held against the source.
pub const SCRATCH_FREE_BYTES_MIN: u64 = 2 * COMPILE.file_bytes_max + ARCHIVE.unpacked_bytes_max;
/// Free files and directories that it has to have for each build, where the file system has a number of them.
pub const SCRATCH_FREE_FILES_MIN: u64 = 4 * ARCHIVE.entries_max as u64;

/// Limits of reading a dependency's directory for its reviewer. More than this is listed as not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrateFactsLimits {
    /// Files and directories looked at.
    pub entries_max: usize,
    /// Directories inside each other.
    pub depth_max: usize,
    /// Bytes of one file that is read.
    pub file_bytes_max: u64,
    /// Bytes of all files that are read.
    pub total_bytes_max: u64,
    /// Hotspots kept of one file; all are counted.
    pub hotspots_max: usize,
    /// Files that geiger is given in one process.
    pub geiger_files_max: usize,
    /// Bytes that geiger is given in one process.
    pub geiger_bytes_max: usize,
    /// Processes of geiger that may die over one crate before the rest of it is given up.
    pub geiger_deaths_max: usize,
}

/// The limits on reading a dependency in force. The largest crate of the site's seed (libc) has
/// some 300 files and 6 MB.
pub const CRATE_FACTS: CrateFactsLimits = CrateFactsLimits {
    entries_max: 20_000,
    depth_max: 32,
    file_bytes_max: 4 << 20,
    total_bytes_max: 64 << 20,
    hotspots_max: 200,
    geiger_files_max: 64,
    geiger_bytes_max: 1 << 20,
    geiger_deaths_max: 16,
};

/// Limits of what is said about one crate version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrateRulesLimits {
    /// Reasons kept; the most severe are.
    pub reasons_max: usize,
    /// Places kept of one reason.
    pub hotspots_max: usize,
    /// Bytes of one reason's sentence.
    pub text_bytes_max: usize,
    /// Hints from imported audits.
    pub hints_max: usize,
    /// Bytes of a licence expression that is parsed.
    pub licence_bytes_max: usize,
}

/// The limits on judgements in force.
pub const CRATE_RULES: CrateRulesLimits = CrateRulesLimits {
    reasons_max: 2_000,
    hotspots_max: 200,
    text_bytes_max: 500,
    hints_max: 200,
    licence_bytes_max: 1_000,
};

/// Limits of the files of the advisory database. The largest of 714 has 10 KB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvisoryLimits {
    /// Size of one file.
    pub file_bytes_max: usize,
    /// Nesting of its head.
    pub depth_max: usize,
    /// Requirements in each list of versions.
    pub requirements_max: usize,
    /// Bytes of a title that are kept.
    pub title_bytes_max: usize,
}

/// The limits on advisories in force.
pub const ADVISORY: AdvisoryLimits =
    AdvisoryLimits { file_bytes_max: 256 << 10, depth_max: 16, requirements_max: 64, title_bytes_max: 300 };

/// Limits of files of imported audits. The largest public ones have less than a megabyte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditFileLimits {
    /// Size of one file.
    pub file_bytes_max: usize,
    /// Nesting.
    pub depth_max: usize,
    /// Entries of one file.
    pub entries_max: usize,
    /// Criteria that one file defines.
    pub criteria_max: usize,
    /// Criteria of one entry, others that one criterion implies, and people.
    pub words_max: usize,
    /// Bytes of notes that are kept.
    pub notes_bytes_max: usize,
}

/// The limits on imported audits in force.
pub const AUDIT_FILE: AuditFileLimits = AuditFileLimits {
    file_bytes_max: 8 << 20,
    depth_max: 16,
    entries_max: 50_000,
    criteria_max: 200,
    words_max: 20,
    notes_bytes_max: 4_000,
};

/// The limits for one process of geiger. It parses by recursion: 3,000 nested parentheses end it.
pub const GEIGER: CompileLimits = CompileLimits {
    cpu_seconds_max: 10,
    wall_seconds_max: 30,
    memory_bytes_max: 1 << 30,
    file_bytes_max: 1 << 20,
    output_bytes_max: 1 << 20,
    processes_max: 64,
    descriptors_max: 32,
};

/// Limits of reading a dependency's archive. Beyond one, nothing of it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrateArchiveLimits {
    /// Size of the `.crate` file.
    pub archive_bytes_max: u64,
    /// Size of the tar inside, headers and padding included.
    pub unpacked_bytes_max: u64,
    /// Headers, and files and directories.
    pub entries_max: usize,
    /// Length of one path below the archive's own directory.
    pub path_bytes_max: usize,
    /// Components of one path.
    pub path_depth_max: usize,
}

/// The limits on a dependency's archive in force. The public registry takes 10 MiB unless it was asked
/// for more; paths in it are longer than an upload's.
pub const CRATE_ARCHIVE: CrateArchiveLimits = CrateArchiveLimits {
    archive_bytes_max: 32 << 20,
    unpacked_bytes_max: 256 << 20,
    entries_max: 20_000,
    path_bytes_max: 400,
    path_depth_max: 32,
};

/// The limits on a dependency cache as an archive, which acquirers make and builders read: the cache that ships has some
/// 150 files and 80 MB.
pub const CACHE_ARCHIVE: CrateArchiveLimits = CrateArchiveLimits {
    archive_bytes_max: 256 << 20,
    unpacked_bytes_max: 1 << 30,
    entries_max: 4_000,
    path_bytes_max: 250,
    path_depth_max: 2,
};

/// Limits of the files of a dependency that are kept to be shown to its reviewer. A file beyond one is
/// listed as not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrateTextLimits {
    /// Files.
    pub files_max: usize,
    /// Bytes of one file.
    pub file_bytes_max: u64,
}

/// The limits on what is shown in force. The archive's own limits hold before.
pub const CRATE_TEXT: CrateTextLimits = CrateTextLimits { files_max: 5_000, file_bytes_max: 4 << 20 };

/// Limits of one run of cargo that resolves or downloads. It runs nothing of what it downloads, but it
/// waits for a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolveLimits {
    /// Wall time.
    pub wall_seconds_max: u64,
    /// Bytes of standard output and standard error, each.
    pub output_bytes_max: u64,
    /// Packages of one resolution.
    pub packages_max: usize,
    /// Free bytes that its disks have to have: with less, a run that fails says nothing about crates.
    pub free_bytes_min: u64,
}

/// The limits of a resolution in force.
pub const RESOLVE: ResolveLimits = ResolveLimits {
    wall_seconds_max: 600,
    output_bytes_max: 64 << 20,
    packages_max: 2_000,
    free_bytes_min: 256 << 20,
};

/// Limits of what is kept of the compiler's verdict about one crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictLimits {
    /// Hotspots kept; all are counted.
    pub hotspots_max: usize,
    /// Bytes of one message.
    pub message_bytes_max: usize,
}

/// The limits of a verdict in force.
pub const VERDICT: VerdictLimits = VerdictLimits { hotspots_max: 200, message_bytes_max: 200 };

/// Limits of a crate's line in the site's index, which is made from a manifest that strangers wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntryLimits {
    /// Bytes of the manifest.
    pub manifest_bytes_max: usize,
    /// Dependencies of all kinds and platforms.
    pub dependencies_max: usize,
    /// Names of features, and what they switch on, together.
    pub feature_words_max: usize,
    /// Bytes of one name, requirement or platform.
    pub word_bytes_max: usize,
    /// Bytes of the line.
    pub line_bytes_max: usize,
}

/// The limits of a line in force. Crates that bind to whole operating systems have thousands of features.
pub const INDEX_ENTRY: IndexEntryLimits = IndexEntryLimits {
    manifest_bytes_max: 1 << 20,
    dependencies_max: 1_000,
    feature_words_max: 20_000,
    word_bytes_max: 1_000,
    line_bytes_max: 1 << 20,
};

/// What a function may ask for, by its class. What its bodies may have is `mfaas_abi::limits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// CPU time of one call.
    pub budget_max: Budget,
    /// Memory of one call.
    pub memory_max: MemoryLimit,
}

/// The limits of a class's calls.
pub const fn calls(class: Class) -> CallLimits {
    match class {
        // 10 s: longer, and callers of an interactive function have given up. 256 MiB: a worker holds as much for each
        // tenant that has ever called.
        Class::Micro => CallLimits { budget_max: Budget::MICRO_MAX, memory_max: MemoryLimit::MICRO_MAX },
        // 10 minutes of CPU time, which may take hours by the clock where others come first. 1 GiB: with a request of 64 MiB
        // beside it this is what the window of verified code has room for behind code, data and constants.
        Class::Bulk => CallLimits { budget_max: Budget::MAX, memory_max: MemoryLimit::MAX },
    }
}
