//! Call tokens and the keys that they are signed with.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{SubsecRound as _, TimeDelta, Utc};
use http::StatusCode;
use mfaas_attest::{CALL_TOKEN_LIFE, CALL_TOKEN_LIFE_MAX, CallClaims};
use mfaas_catalog::{Actor, CatalogError, IssuedCall};
use mfaas_ident::{PersonName, RESERVED_CALLERS, TenantName};
use mfaas_wire::{
    CallKeyView, CallTokenCreated, CallTokenView, CallerRevoked, CreateCallToken, Page, RotateCallKey, schema,
};
use serde::Deserialize;
use uuid::Uuid;

use crate::caller::Caller;
use crate::extract::{Json, Path, Query};
use crate::refusal::Refusal;
use crate::state::App;
use crate::{limits, responses};

/// Issues a call token for functions of the tenant. The audit log has who asked, for whom and what; not the token.
#[utoipa::path(
    post, path = "/v1/call-tokens", tag = "functions", operation_id = "create_call_token",
    request_body = CreateCallToken,
    responses((status = 201, body = CallTokenCreated))
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<CreateCallToken>,
) -> Result<Response, Refusal> {
    let named = body.caller.clone().unwrap_or_else(|| own_name(&caller));
    if let Some(reserved) = RESERVED_CALLERS.into_iter().find(|reserved| named.as_str().starts_with(reserved))
    {
        return Err(Refusal::invalid(format!(
            "`{reserved}` begins the names of callers that are no tokens."
        )));
    }
    let created = issue(&app, &caller.actor(), (&caller.tenant, named), body).await?;
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// Issues it to whom it names, with a row about it.
pub(crate) async fn issue(
    app: &App,
    actor: &Actor,
    (tenant, named): (&TenantName, PersonName),
    body: CreateCallToken,
) -> Result<CallTokenCreated, Refusal> {
    let life = body.ttl_s.map_or(CALL_TOKEN_LIFE, |seconds| TimeDelta::seconds(seconds.into()));
    if life <= TimeDelta::zero() || life > CALL_TOKEN_LIFE_MAX {
        return Err(Refusal::invalid("`ttl_s` is 1 to 86400 seconds."));
    }
    if body.rate == Some(0) || body.concurrency == Some(0) {
        return Err(Refusal::invalid("`rate` and `concurrency` are at least 1."));
    }
    // A token counts in whole seconds: nobody is told of another end than it has.
    let now = Utc::now().trunc_subsecs(0);
    // What is issued after a revocation counts, in the same second too.
    let revoked_until = app.catalog.caller_revoked_until(tenant, &named).await?;
    let issued_at = revoked_until.map_or(now, |until| now.max(until + TimeDelta::seconds(1)));
    let id = Uuid::now_v7();
    let claims = CallClaims {
        tenant: tenant.clone(),
        caller: named,
        functions: body.functions,
        issued_at,
        expires_at: issued_at + life,
        id: id.to_string(),
        rate: body.rate,
        concurrency: body.concurrency,
    };
    let signed = app.call_keys.sign(&app.catalog, &claims).await.map_err(refusal)?;
    let issued = IssuedCall {
        id,
        tenant: &claims.tenant,
        caller: &claims.caller,
        functions: &claims.functions,
        issued_at,
        expires_at: claims.expires_at,
        key: signed.key,
    };
    app.catalog.record_call_token(actor, &issued).await?;
    Ok(CallTokenCreated {
        token: signed.token,
        id: claims.id,
        tenant: claims.tenant,
        caller: claims.caller,
        functions: claims.functions,
        expires_at: claims.expires_at,
        key_id: signed.key.to_string(),
    })
}

/// The call tokens of the tenant that are not over, those that end last first, without their text.
#[utoipa::path(
    get, path = "/v1/call-tokens", tag = "functions", operation_id = "list_call_tokens",
    responses((status = 200, body = Page<CallTokenView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<axum::Json<Page<CallTokenView>>, Refusal> {
    let found = app.catalog.call_tokens(&caller.tenant, limits::PAGE_ROWS_MAX).await?;
    Ok(axum::Json(Page { items: found.into_iter().map(responses::call_token).collect(), next: None }))
}

/// Revokes a call token of the tenant: nodes refuse it as soon as they have the next serving set.
#[utoipa::path(
    delete, path = "/v1/call-tokens/{id}", tag = "functions", operation_id = "revoke_call_token",
    params(("id" = Uuid, Path, description = "The token's id")),
    responses((status = 200, body = CallTokenView))
)]
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<axum::Json<CallTokenView>, Refusal> {
    let revoked = app.catalog.revoke_call_token(&caller.actor(), &caller.tenant, id).await?;
    Ok(axum::Json(responses::call_token(revoked)))
}

/// Whose tokens are to be revoked.
#[derive(Debug, Deserialize)]
pub(super) struct CallerQuery {
    caller: PersonName,
}

/// Revokes every call token of a caller that was issued until now. Tokens that are issued later count.
#[utoipa::path(
    delete, path = "/v1/call-tokens", tag = "functions", operation_id = "revoke_caller",
    params(("caller" = inline(schema::PersonName), Query, description = "Whom the tokens name as the caller")),
    responses((status = 200, body = CallerRevoked))
)]
pub(super) async fn revoke_caller(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<CallerQuery>,
) -> Result<axum::Json<CallerRevoked>, Refusal> {
    let actor = caller.actor();
    let issued_until = app.catalog.revoke_caller(&actor, &caller.tenant, &query.caller).await?;
    Ok(axum::Json(CallerRevoked { tenant: caller.tenant, caller: query.caller, issued_until }))
}

/// Makes another key for call tokens. The ones before count until their last token is over, or, if one has leaked, not any more.
#[utoipa::path(
    post, path = "/v1/call-keys", tag = "operation", operation_id = "rotate_call_key",
    request_body = RotateCallKey,
    responses((status = 201, body = CallKeyView))
)]
pub(super) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<RotateCallKey>,
) -> Result<Response, Refusal> {
    let made = app.call_keys.rotate(&app.catalog, &caller.actor(), body.leaked).await.map_err(refusal)?;
    let view =
        CallKeyView { key_id: made.id.to_string(), used_from: made.used_from, not_after: made.not_after };
    Ok((StatusCode::CREATED, axum::Json(view)).into_response())
}

/// What the catalog refuses has a code of its own; the rest is a matter of our files.
fn refusal(error: anyhow::Error) -> Refusal {
    match error.downcast::<CatalogError>() {
        Ok(error) => error.into(),
        Err(error) => Refusal::internal(format!("{error:#}")),
    }
}

/// The person of a token. One that speaks for itself is called `tenant/name`, and the tenant stands before every caller anyway.
pub(crate) fn own_name(caller: &Caller) -> PersonName {
    let (tenant, person) = (&caller.tenant, &caller.token.person);
    let rest = person.as_str().strip_prefix(tenant.as_str()).and_then(|rest| rest.strip_prefix('/'));
    rest.and_then(|rest| PersonName::parse(rest).ok()).unwrap_or_else(|| person.clone())
}
