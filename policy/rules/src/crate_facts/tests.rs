use super::*;

fn file(role: Role, geiger: GeigerReport, kinds: &[HotspotKind]) -> FileFacts {
    let counts = kinds.iter().map(|kind| (*kind, 1)).collect();
    let tokens = TokenReport { tokens: 10, counts, hotspots: Vec::new() };
    FileFacts { path: "src/lib.rs".to_owned(), role, bytes: 1, geiger, tokens }
}

fn counted(unsafe_: u64) -> GeigerReport {
    let exprs = Count { safe: 3, unsafe_ };
    GeigerReport::Counted { counts: GeigerCounts { exprs, ..GeigerCounts::default() }, forbids_unsafe: false }
}

fn lost() -> GeigerReport {
    GeigerReport::Unknown { reason: "it crashed".to_owned() }
}

fn answer(files: &[FileFacts]) -> UnsafeCode {
    summarise(files, &[], false, false).unsafe_code
}

#[test]
fn none_needs_both_readers() {
    let library = |geiger, kinds: &[HotspotKind]| vec![file(Role::Library, geiger, kinds)];
    assert_eq!(answer(&library(counted(0), &[])), UnsafeCode::None);
    assert_eq!(
        answer(&library(counted(0), &[HotspotKind::BuildInput, HotspotKind::Invisible])),
        UnsafeCode::None
    );
    assert_eq!(answer(&library(counted(1), &[])), UnsafeCode::Counted);
    assert_eq!(answer(&library(counted(0), &[HotspotKind::Unsafe])), UnsafeCode::Counted);
    assert_eq!(answer(&library(counted(0), &[HotspotKind::Unreadable])), UnsafeCode::Unknown);
    assert_eq!(answer(&library(lost(), &[])), UnsafeCode::Unknown);
}

#[test]
fn nothing_read_is_unknown_and_never_none() {
    assert_eq!(UnsafeCode::default(), UnsafeCode::Unknown);
    assert_eq!(answer(&[]), UnsafeCode::Unknown);
    assert_eq!(answer(&[file(Role::BuildScript, counted(0), &[])]), UnsafeCode::Unknown);
    let library = [file(Role::Library, counted(0), &[])];
    let unread = ["a link was not followed".to_owned()];
    assert_eq!(summarise(&library, &unread, false, false).unsafe_code, UnsafeCode::Unknown);
}

#[test]
fn what_is_written_when_it_runs_is_unknown() {
    let library = [file(Role::Library, counted(0), &[])];
    assert_eq!(summarise(&library, &[], true, false).unsafe_code, UnsafeCode::Unknown);
    assert_eq!(summarise(&library, &[], false, true).unsafe_code, UnsafeCode::Unknown);
    let more = [file(Role::Library, counted(2), &[])];
    assert_eq!(summarise(&more, &[], false, true).unsafe_code, UnsafeCode::Counted);
}

#[test]
fn tests_and_examples_are_not_what_users_compile() {
    let files = [file(Role::Library, counted(0), &[]), file(Role::Aside, lost(), &[HotspotKind::Unsafe])];
    assert_eq!(answer(&files), UnsafeCode::None);
}

#[test]
fn words_of_changes_stay_as_they_are() {
    let changes = [FileChange::Added, FileChange::Removed, FileChange::Changed];
    assert_eq!(changes.map(FileChange::as_str), ["added", "removed", "changed"]);
}
