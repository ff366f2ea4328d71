//! The classes of risk: stable words, what each means for an admission, and what to do about it.

use serde::{Deserialize, Serialize};

/// What a class of risk means for an admission; later ones are graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Worth knowing.
    Note,
    /// A person has to decide.
    Review,
    /// Must not be allowed.
    Refuse,
}

impl RiskClass {
    /// Unsafe code that was found, or may be there.
    pub fn is_about_unsafe(self) -> bool {
        let counts = [Self::UnsafeCompiler, Self::UnsafeTokens, Self::UnsafeGeiger];
        let answers = [Self::UnknownCompiler, Self::UnknownTokens, Self::UnknownGeiger];
        counts.contains(&self) || answers.contains(&self)
    }
}

macro_rules! classes {
    ($([$effect:ident] $($name:ident $word:literal $label:literal $hint:literal;)+)+) => {
        /// A class of risk. Its word is stable: it is stored, shown and linked to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum RiskClass {
            $($(
                #[doc = $label]
                #[serde(rename = $word)]
                $name,
            )+)+
        }

        impl RiskClass {
            /// Every class, the most severe first.
            pub const ALL: &[Self] = &[$($(Self::$name),+),+];

            /// The stable word.
            pub fn word(self) -> &'static str {
                match self { $($(Self::$name => $word),+),+ }
            }

            /// A few words for a chip.
            pub fn label(self) -> &'static str {
                match self { $($(Self::$name => $label),+),+ }
            }

            /// What to look at, one sentence.
            pub fn hint(self) -> &'static str {
                match self { $($(Self::$name => $hint),+),+ }
            }

            /// What it means for an admission.
            pub fn effect(self) -> Effect {
                match self { $($(Self::$name => Effect::$effect),+),+ }
            }

            /// The class of that word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|class| class.word() == word)
            }
        }
    };
}

classes! {
    [Refuse]
        AdvisoryMalicious "advisory-malicious" "malicious"
            "The crate was published to do harm: look for the crate that was meant.";
        AdvisoryUnsound "advisory-unsound" "known to be unsound"
            "Ask for a version that the advisory names as patched or unaffected.";
        AdvisoryVulnerability "advisory-vulnerability" "known vulnerability"
            "Ask for a version that the advisory names as patched or unaffected.";
        AuditViolation "audit-violation" "violation in an imported audit"
            "Reviewers of an imported audit source found that this version breaks their criteria: read their notes.";
    [Review]
        AdvisoryUnmaintained "advisory-unmaintained" "unmaintained"
            "Nobody will mend what is found in it: prefer a successor.";
        AdvisoryNotice "advisory-notice" "notice"
            "Read the notice.";
        AdvisoriesUnread "advisories-unread" "advisories not read"
            "Bring in the advisory database, or mend the file that is named.";
        AuditsUnread "audits-unread" "imported audits not read"
            "Mend or remove the file that is named: a violation may stand in it.";
        FactsOutdated "facts-outdated" "facts of another revision"
            "Gather the facts again.";
        Identity "identity" "not the crate that was asked for"
            "Compare name, version and kind in Cargo.toml with those that were asked for.";
        UnsafeCompiler "unsafe-compiler" "unsafe code (compiler)"
            "Look at every place: can a hostile caller reach undefined behaviour through it?";
        UnsafeTokens "unsafe-tokens" "unsafe code (token scan)"
            "Look at every place, those in macro bodies and attributes included.";
        UnsafeGeiger "unsafe-geiger" "unsafe code (geiger)"
            "Look at the files that have counts.";
        UnknownCompiler "unknown-compiler" "compiler gave no answer"
            "Unsafe code is unknown: make it compile with these features, or count it as unsafe.";
        UnknownTokens "unknown-tokens" "token scan gave no answer"
            "Unsafe code is unknown: look at the file that could not be read.";
        UnknownGeiger "unknown-geiger" "geiger gave no answer"
            "Unsafe code is unknown to geiger: look at the file that it could not parse.";
        SoundnessShape "soundness-shape" "shape of a soundness hole of the compiler"
            "Safe code of this shape can break memory safety: look whether its body does.";
        BuildScript "build-script" "build script"
            "It runs on the build machine: read it, and what it tells cargo to link.";
        ProcMacro "proc-macro" "procedural macro"
            "It runs in the compiler and writes code into its users: read what it can write.";
        MacroPower "macro-power" "exported macro with power in its body"
            "What the macro does in its user's crate is hidden from `-F unsafe-code` there.";
        MacroWrapsCaller "macro-wraps-caller" "exported macro wraps its caller's tokens in unsafe"
            "A caller without the word unsafe gets unsafe code: the macro must not be offered.";
        MacroAttributes "macro-attributes" "exported macro passes attributes on"
            "A caller may put an attribute on an item that its own source never shows.";
        NativeLinks "native-links" "links a native library"
            "What is linked is outside of every count here.";
        NativeSource "native-source" "source for another compiler"
            "Look at what compiles it, and whether it is compiled at all.";
        Binary "binary" "binary file"
            "Look at what it is and who reads it.";
        LicenceNotPermitted "licence-not-permitted" "licence not permitted"
            "Decide whether this licence may be used.";
        LicenceUnknown "licence-unknown" "licence unknown"
            "Read the licence and decide.";
        ApiFs "api-fs" "touches files"
            "Look at every place: may a caller choose the path?";
        ApiNet "api-net" "touches the network"
            "Look at every place.";
        ApiProcess "api-process" "touches processes"
            "Look at every place.";
        ApiEnv "api-env" "touches the environment"
            "Look at every place: what does it change for its caller?";
        ApiStdio "api-stdio" "touches standard input or output"
            "Look at what it writes in its caller's name.";
        ApiThread "api-thread" "touches threads"
            "A function has one thread: look at what it does without another.";
        Yanked "yanked" "yanked"
            "Its publisher took it back: ask for another version.";
        YankedUnknown "yanked-unknown" "yanked or not is unknown"
            "Look it up in the index.";
        Invisible "invisible" "invisible characters"
            "What you see is not what the compiler reads: look at the bytes.";
        OutDir "out-dir" "takes in what a build script wrote"
            "The code that is compiled stands in no file of the crate.";
        Unread "unread" "not read"
            "Nothing is known about what was not read.";
        ClosureIncomplete "closure-incomplete" "a dependency without facts"
            "Gather the facts of the crate that is named.";
        Closure "closure" "a dependency that needs a person"
            "Decide about the dependency first.";
    [Note]
        ApiTime "api-time" "touches clocks"
            "The host offers a clock; look whether the answer depends on it.";
        ApiGlobalState "api-global-state" "keeps state"
            "No state survives a call: look whether it counts on that.";
        Include "include" "takes in another file as source"
            "The file was read like every other one.";
        BuildInput "build-input" "takes in data of the build machine"
            "Look at which files and variables.";
        WordInLiteral "word-in-literal" "unsafe in a literal"
            "Code may be written from text.";
        Quote "quote" "writes code"
            "Look at what is quoted.";
}
