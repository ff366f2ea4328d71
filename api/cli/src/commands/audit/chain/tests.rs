#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

/// A chain of so many rows; each says who did it.
fn chain(rows: u64, actor: &str) -> Vec<AuditLink> {
    let mut head = AuditHead::START;
    let link = |row: u64| {
        let fields = ["0", "mfaas_server", actor, "test", "", "it", "{}"].map(str::to_owned);
        let number = row.to_string();
        head = head.next([number.as_str()].into_iter().chain(fields.iter().map(String::as_str)));
        AuditLink { row, fields, hash: head.hash }
    };
    (1..=rows).map(link).collect()
}

fn head(links: &[AuditLink], row: u64) -> AuditHead {
    AuditHead { row, hash: links[row as usize - 1].hash }
}

/// What a walk over that chain finds, in pages of three.
fn walked(links: &[AuditLink], known: Option<AuditHead>, signed: AuditHead) -> (AuditHead, Verification) {
    let mut walk = Walk::new(known, signed);
    while let Some(after) = walk.wants() {
        let behind: Vec<_> = links.iter().filter(|link| link.row > after).take(4).cloned().collect();
        let next = (behind.len() > 3).then(|| behind[2].row.to_string());
        walk.take(&Page { items: behind.into_iter().take(3).collect(), next });
    }
    walk.finish(signed)
}

fn problem(links: &[AuditLink], known: Option<AuditHead>, signed: AuditHead) -> String {
    walked(links, known, signed).1.problem.unwrap()
}

#[test]
fn a_chain_that_holds_is_computed_from_where_the_last_time_ended() {
    let links = chain(10, "a");
    let (end, first) = walked(&links, None, head(&links, 7));
    assert_eq!((first.holds, first.rows, first.computed, end), (true, 10, 10, head(&links, 10)));
    let longer = chain(12, "a");
    let (_, second) = walked(&longer, Some(end), head(&longer, 11));
    assert_eq!((second.holds, second.rows, second.computed), (true, 12, 2));
    let (_, older_set) = walked(&longer, Some(end), head(&longer, 4));
    assert_eq!(
        (older_set.holds, older_set.computed),
        (true, 8),
        "from what was signed, past what was verified"
    );
    let (_, nothing_new) = walked(&longer, Some(head(&longer, 12)), head(&longer, 12));
    assert_eq!((nothing_new.holds, nothing_new.computed), (true, 0));
    assert!(walked(&[], None, AuditHead::START).1.holds);
    assert!(walked(&[], Some(AuditHead::START), AuditHead::START).1.holds, "and a second time");
}

#[test]
fn every_kind_of_damage_shows() {
    let links = chain(10, "a");
    let mut changed = links.clone();
    changed[4].fields[2] = "nobody".to_owned();
    assert_eq!(problem(&changed, None, head(&links, 10)), "row 5 does not match its hash");
    let mut removed = links.clone();
    removed.remove(4);
    assert_eq!(problem(&removed, None, head(&links, 10)), "row 5 is missing; 6 comes next");
    let cut = &links[..6];
    let signed = head(&links, 8);
    assert_eq!(problem(cut, None, signed), "row 8 is missing, which the newest serving set names");
    let known = Some(head(&links, 8));
    assert_eq!(problem(cut, known, head(cut, 6)), "row 8 is missing, which the last verification names");
}

/// Who can write the database can write a chain that holds in itself.
#[test]
fn a_chain_that_was_written_anew_passes_no_trusted_head() {
    let (before, anew) = (chain(10, "alice"), chain(10, "mallory"));
    assert!(walked(&anew, None, head(&anew, 8)).1.holds);
    let (known, signed) = (Some(head(&before, 6)), head(&before, 8));
    assert_eq!(problem(&anew, None, signed), "row 8 is another one than the newest serving set names");
    assert_eq!(
        problem(&anew, known, head(&anew, 8)),
        "row 6 is another one than the last verification names"
    );
    let both = (Some(head(&before, 8)), head(&anew, 8));
    assert_eq!(problem(&anew, both.0, both.1), "row 8 is another one than the last verification names");
}

#[test]
fn a_row_that_no_database_counts_to_is_refused() {
    let mut links = chain(2, "a");
    links[0].row = u64::MAX;
    let said = problem(&links, None, AuditHead::START);
    assert_eq!(said, format!("row 1 is missing; {} comes next", u64::MAX));
}

/// One that was kept back and is shown again.
#[test]
fn a_set_that_says_nothing_about_today_is_no_proof() {
    let now: chrono::DateTime<chrono::Utc> = "2027-01-01T00:00:00Z".parse().unwrap();
    let set = |hours| ServingSet {
        version: ServingSet::FORMAT,
        epoch: mfaas_ident::Epoch(1),
        key_list_version: 1,
        issued_at: now - chrono::TimeDelta::hours(1),
        expires_at: now + chrono::TimeDelta::hours(hours),
        accepted_toolchains: Default::default(),
        abi_versions: Default::default(),
        required_lints: Default::default(),
        functions: mfaas_attest::tree_of([]).unwrap().0,
        call_keys: Vec::new(),
        revoked_calls: None,
        audit_head: AuditHead::START,
    };
    assert_eq!(head_of(&set(1), now), Ok(AuditHead::START));
    assert!(head_of(&set(0), now).unwrap_err().contains("valid until"));
}

/// A chain whose row 8 says that rows up to 5 are in an archive, and the log without those that it may do without.
fn archived() -> (Vec<AuditLink>, Vec<AuditLink>) {
    let mut links = chain(10, "a");
    let detail = format!(r#"{{"last_row": 5, "hash": "{}"}}"#, links[4].hash);
    links[7].fields[ACTION] = AuditArchive::ACTION.to_owned();
    links[7].fields[DETAIL] = detail;
    let mut at = head(&links, 7);
    for link in &mut links[7..] {
        let number = link.row.to_string();
        at = at.next([number.as_str()].into_iter().chain(link.fields.iter().map(String::as_str)));
        link.hash = at.hash;
    }
    let log = links[4..].to_vec();
    (links, log)
}

/// An archive of the rows behind `after`, up to `last`; `change` may do to its lines what it likes.
fn archive(
    links: &[AuditLink],
    (after, last): (u64, u64),
    change: impl FnOnce(&mut Vec<String>),
) -> tempfile::NamedTempFile {
    let start = if after == 0 { AuditHead::START } else { head(links, after) };
    let first = AuditArchive { format: AuditArchive::FORMAT, start, end: head(links, last) };
    let mut lines = vec![serde_json::to_string(&first).unwrap()];
    lines
        .extend(links[after as usize..last as usize].iter().map(|link| serde_json::to_string(link).unwrap()));
    change(&mut lines);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n") + "\n").unwrap();
    file
}

/// What is found with these archives and that log.
fn found(log: &[AuditLink], signed: AuditHead, archives: &[&tempfile::NamedTempFile]) -> Verification {
    let mut walk = Walk::new(None, signed);
    walk.all = true;
    let paths: Vec<PathBuf> = archives.iter().map(|file| file.path().to_owned()).collect();
    take_archives(&mut walk, &paths).unwrap();
    while let Some(after) = walk.wants() {
        let behind: Vec<_> = log.iter().filter(|link| link.row > after).cloned().collect();
        walk.take(&Page { items: behind, next: None });
    }
    walk.finish(signed).1
}

#[test]
fn archives_and_log_are_one_chain() {
    let (links, log) = archived();
    let signed = head(&links, 9);
    let one = archive(&links, (0, 5), |_| {});
    let whole = found(&log, signed, &[&one]);
    assert_eq!((whole.holds, whole.rows, whole.computed, whole.archived_to), (true, 10, 10, None));
    let (first, second) = (archive(&links, (0, 2), |_| {}), archive(&links, (2, 5), |_| {}));
    for archives in [[&first, &second], [&second, &first]] {
        assert!(found(&log, signed, &archives).holds, "in whatever order they are named");
    }
}

#[test]
fn an_archive_that_is_missing_is_said() {
    let (links, log) = archived();
    let signed = head(&links, 9);
    let said = |archives: &[&tempfile::NamedTempFile]| found(&log, signed, archives).problem.unwrap();
    assert_eq!(said(&[]), "rows 1 to 5 are in an archive that was not given: name it with --archive FILE");
    let (first, second) = (archive(&links, (0, 2), |_| {}), archive(&links, (2, 5), |_| {}));
    assert_eq!(
        said(&[&first]),
        "rows 3 to 5 are in an archive that was not given: name it with --archive FILE"
    );
    assert!(
        said(&[&second]).starts_with("rows 1 to 2 are in no archive that was given"),
        "{}",
        said(&[&second])
    );

    // Who does not ask for all of it is told up to where nothing was looked at.
    let (_, without) = walked(&log, None, signed);
    assert_eq!((without.holds, without.computed, without.archived_to), (true, 5, Some(5)));
    let (_, known) = walked(&log, Some(head(&links, 4)), signed);
    assert!(known.holds, "row 5 is computed from what is known: {known:?}");
    let needed = problem(&log, Some(head(&links, 2)), signed);
    assert!(needed.contains("are in an archive"), "what was verified before cannot be: {needed}");
}

#[test]
fn rows_that_were_removed_without_an_archive_are_missing() {
    let links = chain(10, "a");
    assert_eq!(problem(&links[4..], None, head(&links, 9)), "row 1 is missing; 5 comes next");
    // One that names another row than the one with which the log begins is none.
    let (links, _) = archived();
    assert_eq!(problem(&links[5..], None, head(&links, 9)), "row 1 is missing; 6 comes next");
}

#[test]
fn every_change_of_an_archive_shows() {
    let (links, log) = archived();
    let said = |change: fn(&mut Vec<String>)| {
        let file = archive(&links, (0, 5), change);
        let problem = found(&log, head(&links, 9), &[&file]).problem.unwrap_or_default();
        problem.replace(&format!("{}: ", file.path().display()), "")
    };
    assert_eq!(
        said(|lines| lines[3] = lines[3].replace("mfaas_server", "nobody")),
        "row 3 does not match its hash"
    );
    assert_eq!(said(|lines| drop(lines.remove(3))), "row 3 is missing; 4 comes next");
    assert_eq!(said(|lines| lines.swap(3, 4)), "row 3 is missing; 4 comes next");
    assert_eq!(said(|lines| drop(lines.pop())), "row 5 is missing, with which it ends");
    assert_eq!(said(|lines| lines.push(lines[5].clone())), "row 6 is missing; 5 comes next");
    // Written anew from the first row on: it holds in itself, and does not lead to the log.
    let anew = archive(&chain(5, "mallory"), (0, 5), |_| {});
    assert_eq!(found(&log, head(&links, 9), &[&anew]).problem.unwrap(), "row 6 does not match its hash");
}
