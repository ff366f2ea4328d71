//! What the server does by itself while it runs.

use std::time::{Duration, Instant};

use mfaas_ident::{Role, Scope, TenantName};
use serde_json::Value;

use crate::support::Server;

#[tokio::test]
async fn a_running_server_forgets_what_gets_old_meanwhile() {
    let kept = [("MFAAS_KEEP_TOKENS_DAYS", "2")];
    let server = Server::start_as(&kept, |config| config.forget_every = Duration::from_millis(100)).await;
    let admin = server.token_of("acme", Role::Admin).await;
    let names = async || {
        let tenant = TenantName::parse("acme").unwrap();
        let rows = server.catalog.tokens(Some(&tenant), 100).await.unwrap();
        rows.into_iter().map(|token| token.name).collect::<Vec<_>>()
    };
    let mine = names().await;
    // Not what it did at its start: each round gets old after the one before has gone.
    for round in 0..2 {
        server.token("acme", &[Scope::Read]).await;
        server.token("acme", &[Scope::Read]).await;
        let [old, young] = ["3 days", "1 day"].map(|age| {
            format!(
                "UPDATE tokens SET name = '{age}', revoked_at = now() - interval '{age}' WHERE id =
                 (SELECT id FROM tokens WHERE scopes = '{{read}}' AND revoked_at IS NULL LIMIT 1)"
            )
        });
        server.db.sql(&young);
        server.db.sql(&old);
        let until = Instant::now() + Duration::from_secs(20);
        while names().await.contains(&"3 days".to_owned()) {
            assert!(Instant::now() < until, "round {round}: {:?}", names().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let left = names().await.iter().filter(|name| *name == "1 day").count();
        assert_eq!((left, names().await.len()), (round + 1, mine.len() + round + 1), "{:?}", names().await);
    }
    let log = server.get("/v1/audit?limit=1000", &admin).await.json();
    let is_told = |row: &&Value| row["action"] == "retention.forgotten" && row["subject"] == "tokens";
    let told: Vec<_> = log["items"].as_array().unwrap().iter().filter(is_told).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1]["detail"]["tenants"], serde_json::json!({"acme": 1}));
}
