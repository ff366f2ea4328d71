//! Tokens and who did what with them.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mfaas_catalog::NewToken;
use mfaas_ident::{BuildVersion, Role, Scope};
use mfaas_wire::schema;
use mfaas_wire::{AuditEntry, AuditLink, CreateToken, Page, Removed, TokenCreated, TokenView, WhoAmI};
use serde::Deserialize;
use uuid::Uuid;

use super::paging::{cursor, page, rows};
use crate::caller::{Caller, Founder};
use crate::extract::{Json, Path, Query};
use crate::refusal::Refusal;
use crate::state::App;
use crate::token::{Secret, check_person};
use crate::{limits, responses};

/// The tokens of the tenant, newest first, without their secrets.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "operation", operation_id = "list_tokens",
    responses((status = 200, body = Page<TokenView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<axum::Json<Page<TokenView>>, Refusal> {
    let found = app.catalog.tokens(Some(&caller.tenant), limits::PAGE_ROWS_MAX).await?;
    Ok(axum::Json(Page { items: found.into_iter().map(responses::token).collect(), next: None }))
}

/// Makes a token. The answer is the only place where its secret ever appears.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "operation", operation_id = "create_token",
    request_body = CreateToken,
    responses((status = 201, body = TokenCreated))
)]
pub(super) async fn create(
    State(app): State<App>,
    Founder(caller): Founder,
    Json(body): Json<CreateToken>,
) -> Result<Response, Refusal> {
    if !(1..=limits::TOKEN_NAME_CHARS_MAX).contains(&body.name.chars().count()) {
        return Err(Refusal::invalid("`name` has 1 to 80 characters."));
    }
    // It stands in the head of every page and in the audit log; no text of the database can hold a NUL, either.
    if mfaas_ident::sanitise_line(&body.name, usize::MAX) != body.name {
        return Err(Refusal::invalid("`name` holds control or invisible characters."));
    }
    let scopes = scopes(&caller, body.role, &body.scopes)?;
    check_person(scopes, body.person.as_ref())?;
    let tenant = body.tenant.unwrap_or_else(|| caller.tenant.clone());
    let secret = Secret::generate().map_err(Refusal::internal)?;
    let new = NewToken {
        tenant: &tenant,
        name: &body.name,
        person: body.person.as_ref(),
        scopes,
        secret_sha256: secret.hash(),
        expires_at: None,
    };
    let token = app.catalog.create_token(&caller.actor(), &new).await?;
    let secret = secret.reveal_with(token.id);
    let created = TokenCreated { token: responses::token(token), secret };
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// What the new token holds. Nobody gives what they do not have. An admin holds everything but reviews, if
/// they have no identity source; it stays true when the route opens to others.
fn scopes<'a>(caller: &Caller, role: Option<Role>, scopes: &'a [Scope]) -> Result<&'a [Scope], Refusal> {
    let scopes = match role {
        Some(role) if scopes.is_empty() => role.scopes(),
        None if !scopes.is_empty() => scopes,
        _ => return Err(Refusal::invalid("A token has either a `role` or `scopes`.")),
    };
    match scopes.iter().find(|scope| !caller.token.scopes.iter().any(|held| held.implies(**scope))) {
        None => Ok(scopes),
        Some(scope) => Err(Refusal::invalid(format!("The calling token itself lacks the scope `{scope}`."))),
    }
}

/// Withdraws a token of the tenant; it opens nothing from now on.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "operation", operation_id = "revoke_token",
    params(("id" = Uuid, Path, description = "The token's id")),
    responses((status = 200, body = Removed))
)]
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<axum::Json<Removed>, Refusal> {
    app.catalog.revoke_token(&caller.actor(), Some(&caller.tenant), id).await?;
    Ok(axum::Json(Removed { removed: format!("token {id}") }))
}

/// Who the calling token is.
#[utoipa::path(
    get, path = "/v1/whoami", tag = "operation", operation_id = "whoami",
    responses((status = 200, body = WhoAmI))
)]
pub(super) async fn whoami(caller: Caller) -> axum::Json<WhoAmI> {
    axum::Json(WhoAmI {
        tenant: caller.tenant,
        token_id: caller.token.id.to_string(),
        role: caller.token.role(),
        token_name: caller.token.name,
        identity_source: caller.token.identity_source,
        person: caller.token.person,
        scopes: caller.token.scopes,
        server_version: BuildVersion::this().to_string(),
    })
}

/// What part of the log is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct AuditQuery {
    after: Option<i64>,
    limit: Option<u32>,
}

/// The audit log, oldest first, of all tenants.
#[utoipa::path(
    get, path = "/v1/audit", tag = "operation", operation_id = "list_audit",
    params(
        ("after" = inline(Option<schema::RowCursor>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<AuditEntry>))
)]
pub(super) async fn audit(
    State(app): State<App>,
    _caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<axum::Json<Page<AuditEntry>>, Refusal> {
    let limit = rows(query.limit)?;
    let found = app.catalog.audit_after(cursor(query.after)?, limit + 1).await?;
    let views = found.into_iter().map(responses::audit).collect();
    Ok(axum::Json(page(views, limit, |view: &AuditEntry| view.seq.to_string())))
}

/// The audit log as its hashes cover it, for those who compute the chain again.
#[utoipa::path(
    get, path = "/v1/audit/chain", tag = "operation", operation_id = "audit_chain",
    params(
        ("after" = inline(Option<schema::RowCursor>), Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<AuditLink>))
)]
pub(super) async fn audit_chain(
    State(app): State<App>,
    _caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<axum::Json<Page<AuditLink>>, Refusal> {
    let limit = rows(query.limit)?;
    let after = u64::try_from(cursor(query.after)?).unwrap_or(0);
    let found = app.catalog.audit_links(after, limit + 1).await?;
    let views = found.into_iter().map(responses::audit_link).collect();
    Ok(axum::Json(page(views, limit, |view: &AuditLink| view.row.to_string())))
}
