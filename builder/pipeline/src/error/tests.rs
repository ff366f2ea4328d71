//! What is the machine's fault, and what may be the source's.

use mfaas_blobs::BlobError;
use mfaas_catalog::CatalogError;
use mfaas_ident::Digest;

use super::*;

fn io(errno: Errno) -> std::io::Error {
    errno.into()
}

#[test]
fn a_full_or_broken_disk_is_the_machines_fault_wherever_it_shows() {
    for errno in
        [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS, Errno::MFILE, Errno::NFILE, Errno::NOMEM]
    {
        assert!(BuilderError::io("/scratch")(io(errno)).is_of_the_machine(), "{errno:?}");
        assert!(BuilderError::product("/scratch/out")(io(errno)).is_of_the_machine(), "{errno:?}");
        let unpack = UnpackError::Disk { path: "/scratch/src".to_owned(), source: io(errno) };
        assert!(BuilderError::Unpack(unpack).is_of_the_machine(), "{errno:?}");
    }
    let blobs = BlobError::Io { place: "file:///blobs".to_owned(), source: io(Errno::NOSPC) };
    let error = BuilderError::from(blobs);
    assert!(error.is_of_the_machine());
    let text = "the blob store: the blob store file:///blobs is not available: No space left on device (os error 28)";
    assert_eq!(error.to_string(), text);
    assert!(BuilderError::Sandbox("cannot be set up".to_owned()).is_of_the_machine());
}

/// Nobody but us names these paths: a directory that was removed, a mode that was changed, threads that do not start.
#[test]
fn what_fails_on_our_own_paths_is_the_machines_fault_whatever_it_is() {
    for errno in [Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::AGAIN, Errno::TXTBSY, Errno::LOOP] {
        assert!(BuilderError::io("/scratch")(io(errno)).is_of_the_machine(), "{errno:?}");
        let unpack = UnpackError::Disk { path: "/scratch/src".to_owned(), source: io(errno) };
        assert!(BuilderError::Unpack(unpack).is_of_the_machine(), "{errno:?}");
    }
}

/// Each of these a source may bring about: tried again without a count it would be tried for ever.
#[test]
fn what_a_source_can_cause_costs_an_attempt() {
    for error in [
        BuilderError::Panicked,
        BuilderError::SandboxLost("it was killed from outside".to_owned()),
        BuilderError::product("/out/source.d")(io(Errno::NOENT)),
        BuilderError::product("/out/source.d")(io(Errno::ACCESS)),
        BuilderError::Unpack(UnpackError::Disk { path: "/scratch/src".to_owned(), source: io(Errno::EXIST) }),
        BuilderError::from(CatalogError::Denied),
        BuilderError::from(CatalogError::Fenced),
        BuilderError::from(BlobError::Missing { digest: Digest::of(b"") }),
    ] {
        assert!(!error.is_of_the_machine(), "{error}");
    }
}
