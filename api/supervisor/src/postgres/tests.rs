#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{MACHINE_ROOTS, libpq_environment};

fn environment(url: &str) -> Vec<String> {
    let pairs = libpq_environment(&url.parse().unwrap());
    let mut pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.sort();
    pairs
}

#[test]
fn an_address_becomes_the_variables_of_libpq() {
    assert_eq!(
        environment("postgres:///mfaas?host=%2Frun%2Fpg&user=u&password=p"),
        [
            "PGDATABASE=mfaas",
            "PGHOST=/run/pg",
            "PGPASSWORD=p",
            "PGPORT=5432",
            "PGSSLMODE=disable",
            "PGTARGETSESSIONATTRS=read-write",
            "PGUSER=u"
        ]
    );
    assert_eq!(
        environment("postgres://u@one:1,two/mfaas?sslrootcert=/ca&sslcert=/c&sslkey=/k"),
        [
            "PGDATABASE=mfaas",
            "PGHOST=one,two",
            "PGPORT=1,5432",
            "PGSSLCERT=/c",
            "PGSSLKEY=/k",
            "PGSSLMODE=verify-full",
            "PGSSLROOTCERT=/ca",
            "PGTARGETSESSIONATTRS=read-write",
            "PGUSER=u"
        ]
    );
    assert!(environment("postgres://u@one/mfaas").contains(&format!("PGSSLROOTCERT={MACHINE_ROOTS}")));
}
