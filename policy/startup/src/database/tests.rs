use std::path::PathBuf;

use super::{DatabaseAddress, DatabaseAddressError, DatabaseHost, DatabaseTls, MACHINE_ROOTS};

fn read(text: &str) -> DatabaseAddress {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> DatabaseAddressError {
    text.parse::<DatabaseAddress>().expect_err(text)
}

fn tcp(host: &str, port: u16) -> DatabaseHost {
    DatabaseHost::Tcp(host.to_owned(), port)
}

#[test]
fn a_server_elsewhere_is_spoken_to_encrypted() {
    let address = read("postgres://mfaas_server:p%40ss%23@db.example/site?sslrootcert=/etc/ca.pem");
    assert_eq!(address.hosts, [tcp("db.example", 5432)]);
    assert_eq!((&*address.user, address.password.as_deref()), ("mfaas_server", Some("p@ss#")));
    assert_eq!(address.database, "site");
    assert_eq!(address.tls, Some(DatabaseTls { roots: Some("/etc/ca.pem".into()), client: None }));
    assert_eq!(read("postgresql://u@10.0.0.1/d?sslmode=verify-full").tls, Some(DatabaseTls::default()));
    assert_eq!(read("postgres://u@db/d?sslrootcert=system").tls, Some(DatabaseTls::default()));
}

#[test]
fn one_that_says_so_or_is_on_this_machine_is_not() {
    for text in [
        "postgres://u@db.example/d?sslmode=disable",
        "postgres://u@localhost/d",
        "postgres://u@127.0.0.2:7/d",
        "postgres://u@[::1]/d",
        "postgres:///d?host=/run/postgresql&user=u",
        "postgres://u@%2Frun%2Fpostgresql/d",
    ] {
        assert_eq!(read(text).tls, None, "{text}");
    }
    assert!(read("postgres://u@localhost/d?sslmode=verify-full").tls.is_some());
    assert!(read("postgres://u@localhost,db/d").tls.is_some());
}

#[test]
fn several_hosts_each_with_its_port() {
    let address = read("postgres://u:p@one:1,[fd00::2]:2,three/d?target_session_attrs=read-write");
    assert_eq!(address.hosts, [tcp("one", 1), tcp("fd00::2", 2), tcp("three", 5432)]);
    assert_eq!(read("postgres://u@one,two/d?port=6,7").hosts, [tcp("one", 6), tcp("two", 7)]);
    assert_eq!(read("postgres://u@one,two/d?port=6").hosts, [tcp("one", 6), tcp("two", 6)]);
    assert!(matches!(refused("postgres://u@a,b,c/d?port=6,7"), DatabaseAddressError::Malformed(_)));
    assert!(matches!(refused("postgres://u@a,,c/d"), DatabaseAddressError::Missing("host")));
    assert!(matches!(refused("postgres://u@a,b,c,d,e,f,g,h,i/d"), DatabaseAddressError::Malformed(_)));
}

#[test]
fn a_socket_is_its_directory() {
    let expected = [DatabaseHost::Socket(PathBuf::from("/run/pg"), 5433)];
    let address = read("postgres:///d?host=/run/pg&user=u&password=p&port=5433");
    assert_eq!((address.hosts.as_slice(), address.password.as_deref()), (expected.as_slice(), Some("p")));
    assert_eq!(expected[0].to_string(), "/run/pg/.s.PGSQL.5433");
}

#[test]
fn modes_that_leave_open_who_answers_are_refused() {
    for mode in ["require", "prefer", "allow", "verify-ca"] {
        let error = refused(&format!("postgres://u@db/d?sslmode={mode}"));
        assert_eq!(error, DatabaseAddressError::SslMode(mode.to_owned()));
        assert!(error.to_string().contains("verify-full"));
    }
}

#[test]
fn what_is_missing_or_unknown_is_named_and_the_password_is_not() {
    assert_eq!(refused("postgres://db/d"), DatabaseAddressError::Missing("user"));
    assert_eq!(refused("postgres://u@db"), DatabaseAddressError::Missing("database"));
    assert_eq!(refused("postgres:///d?user=u"), DatabaseAddressError::Missing("host"));
    assert_eq!(
        refused("postgres://u@db/d?sslcert=/c"),
        DatabaseAddressError::Missing("sslkey for its sslcert")
    );
    assert_eq!(
        refused("postgres://u@db/d?sslkey=/c"),
        DatabaseAddressError::Missing("sslcert for its sslkey")
    );
    assert_eq!(
        refused("postgres://u@db/d?gssencmode=x"),
        DatabaseAddressError::Unknown("gssencmode".to_owned())
    );
    for text in [
        "mysql://u:hidden@db/d",
        "u:hidden@db/d",
        "postgres://u:hidden@db:x/d",
        "postgres://u:hidden@db:70000/d",
        "postgres://u:hidden@db/d#x",
        "postgres://u:hidden@db/%ff",
        "postgres://u:hidden@db/d?target_session_attrs=standby",
    ] {
        let error = refused(text).to_string();
        assert!(!error.contains("hidden"), "{error}");
    }
    assert!(!format!("{:?}", read("postgres://u:hidden@db/d")).contains("hidden"));
}

#[test]
fn a_written_address_reads_the_same() {
    for text in [
        "postgres://u:p%40s%26%3D%23@one:1,[fd00::2]:2/d?sslrootcert=/a%20b/ca.pem&sslcert=/c&sslkey=/k",
        "postgres:///d?host=/run/pg&user=u&password=p",
        "postgres://u@db.example/d?sslmode=disable",
    ] {
        let address = read(text);
        assert_eq!(read(&address.to_url()), address, "{text}");
    }
}

fn libpq(url: &str) -> Vec<String> {
    let pairs = read(url).libpq_variables();
    let mut pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.sort();
    pairs
}

#[test]
fn an_address_becomes_the_variables_of_libpq() {
    assert_eq!(
        libpq("postgres:///mfaas?host=%2Frun%2Fpg&user=u&password=p"),
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
        libpq("postgres://u@one:1,two/mfaas?sslrootcert=/ca&sslcert=/c&sslkey=/k"),
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
    assert!(libpq("postgres://u@one/mfaas").contains(&format!("PGSSLROOTCERT={MACHINE_ROOTS}")));
}
