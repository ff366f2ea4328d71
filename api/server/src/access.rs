//! Who may call what: one table from route to the scope it needs.
//!
//! What one scope implies of the others is said by `Scope::implies`; nothing else decides about
//! scopes. Tenants are separated by the queries, which all take the caller's tenant.

use http::Method;
use mfaas_ident::Scope;

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: health, numbers, the API's description, the sign-in page.
    Open,
    /// A bearer token with this scope.
    Token(Scope),
    /// The same, and the token may stand in the header without a word in front of it, as cargo sends it to
    /// a registry.
    Registry(Scope),
    /// A console session whose token has this scope.
    Session(Scope),
}

/// Where sources are sent to.
pub(crate) const UPLOAD_PATH: &str = "/v1/functions/{name}/deployments";
/// Where assets come in.
pub(crate) const ASSET_PATH: &str = "/v1/resources/{name}/asset";

/// Every route of the HTTP listener. `GET` rows answer `HEAD` too.
pub const TABLE: &[(&str, &str, Access)] = &[
    ("GET", "/healthz", Access::Open),
    ("GET", "/readyz", Access::Open),
    ("GET", "/metrics", Access::Open),
    ("GET", "/openapi.json", Access::Open),
    ("POST", UPLOAD_PATH, Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/deployments", Access::Token(Scope::Read)),
    ("GET", "/v1/deployments/{id}", Access::Token(Scope::Read)),
    ("GET", "/v1/deployments/{id}/events", Access::Token(Scope::Read)),
    ("GET", "/v1/functions", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}", Access::Token(Scope::Read)),
    ("DELETE", "/v1/functions/{name}", Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/versions", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/versions/{version}", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/aliases", Access::Token(Scope::Read)),
    ("PUT", "/v1/functions/{name}/aliases/{alias}", Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/logs", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/endpoints", Access::Token(Scope::Read)),
    ("GET", "/v1/artifacts/{digest}", Access::Token(Scope::Read)),
    ("GET", "/v1/artifacts/{digest}/statement", Access::Token(Scope::Read)),
    ("GET", "/v1/crates", Access::Token(Scope::Read)),
    ("GET", "/v1/allowlist", Access::Token(Scope::Read)),
    ("POST", "/v1/crates/{name}/{version}/revocation", Access::Token(Scope::Review)),
    ("PUT", "/v1/imports/advisories", Access::Token(Scope::Review)),
    ("PUT", "/v1/imports/audits", Access::Token(Scope::Review)),
    ("GET", "/v1/requests", Access::Token(Scope::Read)),
    ("POST", "/v1/requests", Access::Token(Scope::Deploy)),
    ("GET", "/v1/requests/{id}", Access::Token(Scope::Read)),
    ("GET", "/v1/reviews", Access::Token(Scope::Review)),
    ("GET", "/v1/reviews/{id}", Access::Token(Scope::Review)),
    ("GET", "/v1/reviews/{id}/report", Access::Token(Scope::Review)),
    ("POST", "/v1/reviews/{id}/votes", Access::Token(Scope::Review)),
    ("PUT", "/v1/reviews/{id}/hotspots", Access::Token(Scope::Review)),
    ("GET", "/v1/keys", Access::Token(Scope::Read)),
    ("GET", "/v1/whoami", Access::Token(Scope::Read)),
    ("GET", "/v1/builders", Access::Token(Scope::Operate)),
    ("GET", "/v1/nodes", Access::Token(Scope::Operate)),
    ("DELETE", "/v1/nodes/{name}", Access::Token(Scope::Operate)),
    ("PUT", "/v1/nodes/{name}/availability", Access::Token(Scope::Operate)),
    ("GET", "/v1/nodes/{name}/isolation", Access::Token(Scope::Operate)),
    ("GET", "/v1/isolation", Access::Token(Scope::Operate)),
    ("PUT", "/v1/isolation", Access::Token(Scope::Operate)),
    ("GET", "/v1/join-tokens", Access::Token(Scope::Admin)),
    ("POST", "/v1/join-tokens", Access::Token(Scope::Admin)),
    ("DELETE", "/v1/join-tokens/{id}", Access::Token(Scope::Admin)),
    ("GET", "/v1/bans", Access::Token(Scope::Read)),
    ("DELETE", "/v1/bans/{id}", Access::Token(Scope::Operate)),
    ("GET", "/v1/resources", Access::Token(Scope::Read)),
    ("POST", "/v1/resources", Access::Token(Scope::Operate)),
    ("PUT", ASSET_PATH, Access::Token(Scope::Operate)),
    ("GET", "/v1/resources/{name}/grants", Access::Token(Scope::Operate)),
    ("PUT", "/v1/resources/{name}/grants/{tenant}", Access::Token(Scope::Operate)),
    ("DELETE", "/v1/resources/{name}/grants/{tenant}", Access::Token(Scope::Operate)),
    ("GET", "/v1/functions/{name}/schedules", Access::Token(Scope::Read)),
    // Whoever may issue a call token.
    ("PUT", "/v1/functions/{name}/schedules/{schedule}", Access::Token(Scope::Deploy)),
    ("DELETE", "/v1/functions/{name}/schedules/{schedule}", Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/triggers", Access::Token(Scope::Read)),
    ("PUT", "/v1/functions/{name}/triggers/{trigger}", Access::Token(Scope::Deploy)),
    ("DELETE", "/v1/functions/{name}/triggers/{trigger}", Access::Token(Scope::Deploy)),
    ("GET", "/v1/usage", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/series", Access::Token(Scope::Read)),
    ("GET", "/v1/series/tenants", Access::Token(Scope::Read)),
    ("GET", "/v1/series/builds", Access::Token(Scope::Operate)),
    ("GET", "/v1/series/nodes", Access::Token(Scope::Operate)),
    ("GET", "/v1/call-tokens", Access::Token(Scope::Deploy)),
    ("POST", "/v1/call-tokens", Access::Token(Scope::Deploy)),
    ("DELETE", "/v1/call-tokens", Access::Token(Scope::Deploy)),
    ("DELETE", "/v1/call-tokens/{id}", Access::Token(Scope::Deploy)),
    ("POST", "/v1/call-keys", Access::Token(Scope::Admin)),
    ("GET", "/v1/tokens", Access::Token(Scope::Admin)),
    ("POST", "/v1/tokens", Access::Token(Scope::Admin)),
    ("DELETE", "/v1/tokens/{id}", Access::Token(Scope::Admin)),
    ("GET", "/v1/audit", Access::Token(Scope::Operate)),
    ("GET", "/v1/audit/chain", Access::Token(Scope::Operate)),
    ("GET", "/v1/serving-set", Access::Token(Scope::Operate)),
    ("GET", "/index/config.json", Access::Registry(Scope::Read)),
    ("GET", "/index/{first}/{second}", Access::Registry(Scope::Read)),
    ("GET", "/index/{first}/{second}/{name}", Access::Registry(Scope::Read)),
    ("GET", "/index-archives/{name}/{version}", Access::Registry(Scope::Read)),
    ("GET", "/static/{file}", Access::Open),
    ("GET", "/sign-in", Access::Open),
    ("POST", "/sign-in", Access::Open),
    ("GET", "/sign-in/provider", Access::Open),
    ("GET", "/sign-in/callback", Access::Open),
    ("POST", "/sign-out", Access::Session(Scope::Read)),
    ("GET", "/", Access::Session(Scope::Read)),
    ("GET", "/functions", Access::Session(Scope::Read)),
    ("GET", "/functions/{name}", Access::Session(Scope::Read)),
    ("GET", "/functions/{name}/comparison", Access::Session(Scope::Read)),
    // Whoever may issue a call token.
    ("POST", "/functions/{name}/calls", Access::Session(Scope::Deploy)),
    ("GET", "/deployments/{id}", Access::Session(Scope::Read)),
    ("GET", "/deployments/{id}/events", Access::Session(Scope::Read)),
    ("GET", "/crates", Access::Session(Scope::Read)),
    ("GET", "/crates/{name}", Access::Session(Scope::Read)),
    ("GET", "/crates/{name}/{version}/revocation", Access::Session(Scope::Review)),
    ("POST", "/crates/{name}/{version}/revocation", Access::Session(Scope::Review)),
    ("GET", "/reviews", Access::Session(Scope::Review)),
    ("GET", "/reviews/{id}", Access::Session(Scope::Review)),
    ("POST", "/reviews/{id}/votes", Access::Session(Scope::Review)),
    ("POST", "/reviews/{id}/hotspots", Access::Session(Scope::Review)),
    ("GET", "/reviews/{id}/files/{*path}", Access::Session(Scope::Review)),
    ("GET", "/usage", Access::Session(Scope::Read)),
    ("GET", "/charts", Access::Session(Scope::Read)),
    ("GET", "/charts/builds", Access::Session(Scope::Operate)),
    ("GET", "/charts/nodes", Access::Session(Scope::Operate)),
    ("GET", "/functions/{name}/charts", Access::Session(Scope::Read)),
    ("GET", "/nodes", Access::Session(Scope::Operate)),
    ("GET", "/nodes/{name}", Access::Session(Scope::Operate)),
    ("POST", "/nodes/{name}/availability", Access::Session(Scope::Operate)),
    ("POST", "/bans/{id}/lift", Access::Session(Scope::Operate)),
    ("GET", "/resources", Access::Session(Scope::Operate)),
    ("POST", "/resources", Access::Session(Scope::Operate)),
    ("GET", "/resources/{name}", Access::Session(Scope::Operate)),
    ("POST", "/resources/{name}/grants", Access::Session(Scope::Operate)),
    ("POST", "/resources/{name}/grants/{tenant}/revocation", Access::Session(Scope::Operate)),
    ("GET", "/audit", Access::Session(Scope::Operate)),
];

/// Paths of the release before, each with the one that has taken its place. They lead to the same handlers for one
/// release, and are not described.
pub const RENAMED: &[(&str, &str)] = &[
    ("/v1/reviews/{id}/voices", "/v1/reviews/{id}/votes"),
    ("/v1/reviews/{id}/spots", "/v1/reviews/{id}/hotspots"),
    ("/reviews/{id}/voices", "/reviews/{id}/votes"),
    ("/reviews/{id}/spots", "/reviews/{id}/hotspots"),
];

/// The template of today for one of the release before, any other as it is.
pub(crate) fn current(template: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == template).map_or(template, |(_, new)| new)
}

/// The row of a route; `None` for a route that was forgotten.
pub fn access_of(method: &Method, template: &str) -> Option<Access> {
    let template = current(template);
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    TABLE.iter().find(|(m, path, _)| *m == method && *path == template).map(|(_, _, access)| *access)
}

/// The methods that a path has rows for.
pub(crate) fn methods_of(template: &str) -> Vec<&'static str> {
    TABLE.iter().filter(|(_, path, _)| *path == template).map(|(known, _, _)| *known).collect()
}
