//! What a server says, and what is believed of it.

use nfs3_types::nfs3::{
    GETATTR3args, GETATTR3resok, NFS_PROGRAM, fattr3, ftype3, nfs_fh3, nfstime3, specdata3,
};
use nfs3_types::xdr_codec::Void;

use super::*;
use crate::nfs::Found;

fn attributes(type_: ftype3) -> fattr3 {
    let (time, rdev) = (nfstime3::default(), specdata3::default());
    fattr3 {
        type_,
        mode: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 7,
        used: 0,
        rdev,
        fsid: 0,
        fileid: 0,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

/// A link is neither a step on the way nor a file at its end.
#[test]
fn what_is_neither_file_nor_directory_is_nothing() {
    let found = |type_| Found::of(nfs_fh3::default(), &attributes(type_));
    for other in [ftype3::NF3LNK, ftype3::NF3BLK, ftype3::NF3CHR, ftype3::NF3SOCK, ftype3::NF3FIFO] {
        assert!(matches!(found(other), Err(VolumeError::OtherKind)), "{other}");
    }
    assert!(found(ftype3::NF3REG).is_ok() && found(ftype3::NF3DIR).is_ok());
}

/// What an earlier run of the server kept in memory is lost with it: whoever asks for it to be safe hears that, once.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_has_forgotten_is_not_said_to_be_safe() {
    let volumes = server().await;
    volumes.create(&file("a"), &room()).await.unwrap();
    volumes.write_at(&file("a"), 0, b"1", &room()).await.unwrap();
    let Backend::Nfs(nfs) = &volumes.0 else { panic!("a server") };
    nfs.note_earlier_run(&file("a")).await;
    let synced = volumes.sync(&file("a")).await;
    assert!(matches!(synced, Err(VolumeError::Restarted)), "{synced:?}");
    volumes.write_at(&file("a"), 0, b"1", &room()).await.unwrap();
    volumes.sync(&file("a")).await.unwrap();
}

/// What was found a moment ago is not taken for what is there when it was changed here.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_a_name_follows_what_is_done_to_it() {
    let volumes = server().await;
    for round in 0..3 {
        volumes.create(&file("a/b"), &room()).await.unwrap();
        assert_eq!(volumes.size(&file("a/b")).await.unwrap(), Some(0), "{round}");
        volumes.write_at(&file("a/b"), 0, b"12345678", &room()).await.unwrap();
        // It is as large by now, so that this needs no room.
        volumes.write_at(&file("a/b"), 4, b"abcd", &left(0).0).await.unwrap();
        volumes.remove(&file("a/b")).await.unwrap();
        volumes.remove(&file("a")).await.unwrap();
        assert_eq!(volumes.size(&file("a/b")).await.unwrap(), None, "{round}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_said_to_be() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let away = Volumes::open(&format!("nfs://127.0.0.1/none?nfsport={free}&mountport={free}")).unwrap();
    let error = away.size(&file("a")).await.unwrap_err();
    assert!(matches!(&error, VolumeError::Unavailable(why) if why.contains("127.0.0.1")), "{error}");
}

/// A connection that is over before it is asked over it is none of the caller's business.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_sent_over_connections_that_are_open() {
    let volumes = server().await;
    volumes.create(&file("a"), &room()).await.unwrap();
    let Backend::Nfs(nfs) = &volumes.0 else { panic!("a server") };
    for round in 0..3_u8 {
        nfs.server.break_connections(false).await;
        volumes.write_at(&file("a"), u64::from(round), &[round], &room()).await.unwrap();
    }
    assert_eq!(contents(&volumes, "a").await, [0, 1, 2]);
}

/// One that breaks off when it is asked: what looks is asked for again, and what changes something may have been done.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_something_is_not_asked_for_twice() {
    let volumes = server().await;
    let Backend::Nfs(nfs) = &volumes.0 else { panic!("a server") };
    let (server, procedure) = (&nfs.server, NFS_PROGRAM::NFSPROC3_GETATTR);
    let request = GETATTR3args { object: server.root().await.unwrap() };
    server.break_connections(true).await;
    let looked = server.ask::<_, GETATTR3resok, Void>(procedure, &request).await;
    assert!(matches!(looked, Ok(Ok(_))), "{looked:?}");
    server.break_connections(true).await;
    let changed = server.ask_once::<_, GETATTR3resok, Void>(procedure, &request).await;
    assert!(matches!(changed, Err(VolumeError::Unavailable(_))), "{changed:?}");
}

/// What `scripts/test-nfs` starts: a server of Debian's, and the directory that it exports.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: scripts/test-nfs"]
async fn a_real_server_does_the_same() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let export = std::path::PathBuf::from(variable("MFAAS_TEST_NFS_EXPORT"));
    let volumes = Volumes::open(&variable("MFAAS_TEST_NFS_URL")).unwrap();
    behaves(&volumes).await;
    appends(&volumes).await;
    let journal = export.join("journal");
    volumes.create(&file("gap"), &room()).await.unwrap();
    assert_eq!(taken(async |room| volumes.write_at(&file("gap"), 3, b"x", &room).await).await, 4);
    assert_eq!(std::fs::read(journal.join("gap")).unwrap(), b"\0\0\0x");
    // Links, of which the server knows.
    std::fs::write(export.join("secret"), "of nobody").unwrap();
    std::os::unix::fs::symlink("../secret", journal.join("link")).unwrap();
    std::os::unix::fs::symlink("..", journal.join("up")).unwrap();
    for path in ["link", "up/secret"] {
        let read = volumes.read_at(&file(path), 0, 9).await;
        assert!(matches!(read, Err(VolumeError::OtherKind)), "{path}: {read:?}");
        assert!(volumes.create(&file(path), &room()).await.is_err(), "{path}");
    }
    let entries = volumes.list(&root(), None, 99).await.unwrap().entries;
    assert!(entries.iter().all(|entry| entry.name != "link" && entry.name != "up"), "{entries:?}");
    // Many names, in several answers.
    std::fs::create_dir(journal.join("many")).unwrap();
    for number in 0..3_000 {
        std::fs::write(journal.join(format!("many/{number:05}")), "").unwrap();
    }
    let many = VolumePath::directory(&volume(), b"many").unwrap();
    let listed = volumes.list(&many, Some("02000"), 999).await.unwrap();
    assert_eq!((listed.entries.len(), listed.has_more), (999, false));
    assert!(volumes.held(&volume()).await.unwrap() >= 3_001 * ENTRY_BYTES);
    // What one run of the server keeps, and another one does not.
    volumes.write_at(&file("gap"), 0, b"kept", &room()).await.unwrap();
    let restart = variable("MFAAS_TEST_NFS_RESTART");
    let restarted = std::process::Command::new("sh").args(["-c", &restart]).status().unwrap();
    assert!(restarted.success(), "{restart}");
    let synced = volumes.sync(&file("gap")).await;
    assert!(matches!(synced, Err(VolumeError::Restarted)), "{synced:?}");
    volumes.write_at(&file("gap"), 0, b"kept", &room()).await.unwrap();
    volumes.sync(&file("gap")).await.unwrap();
}
