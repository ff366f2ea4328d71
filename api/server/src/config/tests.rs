#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{ServeConfig, VariableError};

fn parse(changes: &[(&str, &str)]) -> Result<ServeConfig, VariableError> {
    let mut variables = vec![
        ("MFAAS_DATABASE_URL", "postgres://u:hidden@localhost/db"),
        ("MFAAS_BLOBS_URL", "file:///b"),
        ("MFAAS_TLS_DIR", "/t"),
    ];
    for (name, value) in changes {
        variables.retain(|(known, _)| known != name);
        variables.push((name, value));
    }
    ServeConfig::read(&variables.into_iter().collect())
}

#[test]
fn defaults_are_loopback_and_the_password_stays_silent() {
    let config = parse(&[("MFAAS_HOSTS", "mfaas.example, ,other")]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7700");
    assert_eq!(config.hosts, ["localhost", "127.0.0.1", "[::1]", "mfaas.example", "other"]);
    assert!(!format!("{config:?}").contains("hidden"));
}

#[test]
fn what_is_missing_or_unfit_is_named() {
    for (name, value) in [
        ("MFAAS_DATABASE_URL", ""),
        ("MFAAS_BLOBS_URL", ""),
        ("MFAAS_TLS_DIR", ""),
        ("MFAAS_LISTEN", "7700"),
        ("MFAAS_LISTEN", "0.0.0.0:7700"),
        ("MFAAS_LISTEN_TLS", "yes"),
        ("MFAAS_HEALTH_LISTEN", "7703"),
        ("MFAAS_NODE_LISTEN", "nowhere"),
        ("MFAAS_PUBLIC_URL", "javascript:alert(1)"),
        ("MFAAS_PUBLIC_URL", "/x"),
        ("MFAAS_PUBLIC_INGRESS_URL", "functions.example"),
        ("MFAAS_TENANT_QUEUED", "0"),
        ("MFAAS_TENANT_QUEUED_BYTES", "1GiB"),
        ("MFAAS_TENANT_FUNCTIONS", "0"),
        ("MFAAS_TENANT_UPLOADS", "0"),
        ("MFAAS_TENANT_UPLOADS", "17"),
        ("MFAAS_KEEP_EVENTS_DAYS", "-1"),
        ("MFAAS_KEEP_TOKENS_DAYS", "36501"),
        ("MFAAS_KEEP_UPLOADS_DAYS", "for ever"),
        ("MFAAS_BLOB_GRACE_HOURS", "0"),
        ("MFAAS_BLOB_GRACE_HOURS", "8761"),
    ] {
        let error = parse(&[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(name), "{error} does not name {name}");
    }
}

#[test]
fn what_is_kept_has_a_default_and_zero_is_for_ever() {
    let kept = parse(&[]).unwrap();
    assert_eq!(kept.retention, mfaas_catalog::Retention::DEFAULT);
    assert_eq!(kept.blob_grace.as_secs(), 24 * 3_600);
    let kept = parse(&[("MFAAS_KEEP_UPLOADS_DAYS", "0"), ("MFAAS_BLOB_GRACE_HOURS", "1")]).unwrap();
    assert_eq!((kept.retention.uploads_days, kept.blob_grace.as_secs()), (0, 3_600));
}

#[test]
fn beyond_the_loopback_rest_speaks_tls_or_says_how() {
    let refused = parse(&[("MFAAS_LISTEN", "10.0.0.5:7700")]).unwrap_err().to_string();
    assert!(refused.contains("MFAAS_LISTEN_TLS=1"), "{refused}");
    let config = parse(&[("MFAAS_LISTEN", "10.0.0.5:7700"), ("MFAAS_LISTEN_TLS", "1")]).unwrap();
    assert_eq!((config.listen.to_string().as_str(), config.listen_tls), ("10.0.0.5:7700", true));
}

#[test]
fn the_certificate_is_the_authority_s_or_comes_with_its_key() {
    let ours = parse(&[]).unwrap().certificate;
    assert_eq!(
        (ours.certificate.to_str(), ours.key.to_str()),
        (Some("/t/server.pem"), Some("/t/server.key"))
    );
    let both = [("MFAAS_TLS_CERTIFICATE_FILE", "/c/tls.crt"), ("MFAAS_TLS_KEY_FILE", "/c/tls.key")];
    let theirs = parse(&both).unwrap().certificate;
    assert_eq!((theirs.certificate.to_str(), theirs.key.to_str()), (Some("/c/tls.crt"), Some("/c/tls.key")));
    for (given, missing) in [(both[0], both[1].0), (both[1], both[0].0)] {
        let error = parse(&[given]).unwrap_err().to_string();
        assert!(error.starts_with(missing), "{error}");
    }
}
