//! Binary facts from an ELF image, and the plain data that a loader needs.
//!
//! [`inspect`] says what an image is, for `mfaas_rules::judge_binary`; [`layout()`] says how to load
//! it. Both read the program headers and the dynamic table, which is what a loader obeys, and
//! never the section headers, which an attacker may fill with anything.
//!
//! All input is hostile. Nothing here panics, allocates more than a small multiple of the limits of
//! `mfaas_rules::limits::BINARY`, reads outside the given bytes, or gives a verdict.

mod facts;
mod image;
mod instructions;
mod layout;
mod relocations;
mod symbols;
pub mod verify;

pub use facts::inspect;
pub use layout::{
    Access, Export, Import, Layout, Relocation, Segment, SymbolKind, SymbolTarget, TlsTemplate, layout,
};

/// Size of a page, the granule of protection.
pub const PAGE_BYTES: u64 = 4096;

/// Why an image could not be read. Everything that can be read but is not allowed is a fact
/// instead, or an error of [`layout()`] alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// A limit of `mfaas_rules::limits::BINARY`, or one of the structure.
    #[error("the image has {value} {what}, more than the {max} that an inspector reads")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        value: u64,
        /// How much there may be.
        max: u64,
    },
    /// A table or a range does not lie where it claims to lie.
    #[error("{what} does not lie within the image")]
    OutOfBounds {
        /// What is misplaced.
        what: &'static str,
    },
    /// The bytes contradict themselves or the format.
    #[error("the image is malformed: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Well-formed, but nothing that this loader will ever load.
    #[error("the image cannot be loaded: {what}")]
    Unloadable {
        /// What is in the way.
        what: &'static str,
    },
    /// A relocation of a type that the loader does not know.
    #[error("the image cannot be loaded: relocation type {kind} at {at:#x}")]
    UnknownRelocation {
        /// Its number in the x86-64 psABI.
        kind: u32,
        /// The virtual address that it wants to change.
        at: u64,
    },
}

#[cfg(test)]
mod tests;
