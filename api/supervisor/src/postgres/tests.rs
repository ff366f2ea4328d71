#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::libpq_environment;

fn environment(url: &str) -> Vec<String> {
    let mut pairs: Vec<String> =
        libpq_environment(url).unwrap().into_iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.sort();
    pairs
}

#[test]
fn a_url_becomes_the_variables_of_libpq() {
    assert_eq!(
        environment("postgres:///mfaas?host=%2Frun%2Fpg&user=u&password=p"),
        ["PGDATABASE=mfaas", "PGHOST=/run/pg", "PGPASSWORD=p", "PGUSER=u"]
    );
    assert_eq!(
        environment("postgres://u:p@db.example:5433/mfaas?sslmode=require"),
        [
            "PGDATABASE=mfaas",
            "PGHOST=db.example",
            "PGPASSWORD=p",
            "PGPORT=5433",
            "PGSSLMODE=require",
            "PGUSER=u"
        ]
    );
    assert!(libpq_environment("no url").is_err());
}
