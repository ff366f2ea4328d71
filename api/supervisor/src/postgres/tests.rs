use super::wal_archive_of;

#[test]
fn an_archive_has_a_path_that_no_shell_reads_otherwise() {
    for good in ["", "/backup/wal", "/srv/mfaas-1/wal_2.old"] {
        assert_eq!(wal_archive_of(good).as_deref(), Ok(good));
    }
    for bad in ["wal", "/a b", "/a;b", "/a%f", "/$HOME", "/a'", "/ä"] {
        assert!(wal_archive_of(bad).is_err(), "{bad}");
    }
}
