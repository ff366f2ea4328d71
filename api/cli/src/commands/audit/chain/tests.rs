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
