//! Call tokens and the keys that they are signed with.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{SubsecRound as _, TimeDelta, Utc};
use http::StatusCode;
use mfaas_attest::{CALL_TOKEN_LIFE, CALL_TOKEN_LIFE_MAX, CallClaims};
use mfaas_catalog::{CatalogError, IssuedCall};
use mfaas_ident::{PersonName, TenantName};
use mfaas_wire::{CallKeyView, CallTokenCreated, CreateCallToken, RotateCallKey};
use uuid::Uuid;

use crate::access::Caller;
use crate::app::App;
use crate::extract::Json;
use crate::refusal::Refusal;

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
    let life = body.ttl_s.map_or(CALL_TOKEN_LIFE, |seconds| TimeDelta::seconds(seconds.into()));
    if life <= TimeDelta::zero() || life > CALL_TOKEN_LIFE_MAX {
        return Err(Refusal::invalid("`ttl_s` is 1 to 86400 seconds."));
    }
    if body.rate == Some(0) || body.concurrency == Some(0) {
        return Err(Refusal::invalid("`rate` and `concurrency` are at least 1."));
    }
    let named = body.caller.unwrap_or_else(|| own_name(&caller.tenant, &caller.token.person));
    // A token counts in whole seconds: nobody is told of another end than it has.
    let now = Utc::now().trunc_subsecs(0);
    let claims = CallClaims {
        tenant: caller.tenant.clone(),
        caller: named,
        functions: body.functions,
        issued_at: now,
        expires_at: now + life,
        id: Uuid::now_v7().to_string(),
        rate: body.rate,
        concurrency: body.concurrency,
    };
    let signed = app.call_keys.sign(&app.catalog, &claims).await.map_err(refusal)?;
    let issued = IssuedCall {
        id: &claims.id,
        tenant: &claims.tenant,
        caller: claims.caller.as_str(),
        functions: &claims.functions,
        expires_at: claims.expires_at,
        key: signed.key,
    };
    app.catalog.record_call_token(&caller.actor(), &issued).await?;
    let created = CallTokenCreated {
        token: signed.token,
        id: claims.id,
        tenant: claims.tenant,
        caller: claims.caller,
        functions: claims.functions,
        expires_at: claims.expires_at,
        key_id: signed.key.to_string(),
    };
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
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
fn own_name(tenant: &TenantName, person: &PersonName) -> PersonName {
    let rest = person.as_str().strip_prefix(tenant.as_str()).and_then(|rest| rest.strip_prefix('/'));
    rest.and_then(|rest| PersonName::parse(rest).ok()).unwrap_or_else(|| person.clone())
}
