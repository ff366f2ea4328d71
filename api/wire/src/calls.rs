//! Call tokens: what nodes ask of callers.

use chrono::{DateTime, Utc};
use mfaas_ident::{CallScope, PersonName, TenantName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Body of the request for a call token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCallToken {
    /// Which functions of the tenant it opens: 1 to 32 names, or `*` for all but those with the access `token`,
    /// which have to be named.
    #[schema(value_type = Vec<schema::CallScopeEntry>, min_items = 1, max_items = 32)]
    pub functions: CallScope,
    /// Whom functions see as the caller; the person of the calling token when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PersonName>)]
    pub caller: Option<PersonName>,
    /// How long it is good for, in seconds: at most a day, a quarter of an hour when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::whole::optional")]
    #[schema(minimum = 1, maximum = 86_400)]
    pub ttl_s: Option<u32>,
    /// Calls a second of each function on each node, where the node itself allows more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::whole::optional")]
    #[schema(value_type = Option<schema::CallLimit>)]
    pub rate: Option<u32>,
    /// Calls of each function on their way on each node, where the node itself allows more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::whole::optional")]
    #[schema(value_type = Option<schema::CallLimit>)]
    pub concurrency: Option<u32>,
}

/// A new call token. It is shown here and kept nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallTokenCreated {
    /// What a caller sends to a node: `Authorization: Bearer …`.
    pub token: String,
    /// Its name in the audit log, and what it is revoked by.
    #[schema(value_type = uuid::Uuid)]
    pub id: String,
    /// Whose functions it opens.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// Whom functions see, after the tenant and a slash.
    #[schema(value_type = schema::PersonName)]
    pub caller: PersonName,
    /// Which functions.
    #[schema(value_type = Vec<schema::CallScopeEntry>)]
    pub functions: CallScope,
    /// From when on it opens nothing.
    pub expires_at: DateTime<Utc>,
    /// SHA-256 of the public key that nodes check it with.
    #[schema(value_type = schema::Digest)]
    pub key_id: String,
}

/// A call token that was issued and is not over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallTokenView {
    /// What it is revoked by.
    pub id: String,
    /// Whom functions see, after the tenant and a slash.
    #[schema(value_type = schema::PersonName)]
    pub caller: PersonName,
    /// Which functions it opens.
    #[schema(value_type = Vec<schema::CallScopeEntry>)]
    pub functions: CallScope,
    /// When it was issued.
    pub issued_at: DateTime<Utc>,
    /// From when on it opens nothing by itself.
    pub expires_at: DateTime<Utc>,
    /// Who asked for it, as the audit log names them.
    pub issued_by: String,
    /// When it was revoked: by itself, or with all tokens of its caller.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A caller whose call tokens were revoked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallerRevoked {
    /// Whose functions they open.
    #[schema(value_type = schema::TenantName)]
    pub tenant: TenantName,
    /// Whom they name.
    #[schema(value_type = schema::PersonName)]
    pub caller: PersonName,
    /// Every token of the caller that was issued until then is revoked; what is issued later counts.
    pub issued_until: DateTime<Utc>,
}

/// Body of the request for another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateCallKey {
    /// A private key has leaked: the new one is used at once, and no token of the ones before counts any more.
    #[serde(default)]
    pub leaked: bool,
}

/// A key that call tokens are signed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallKeyView {
    /// SHA-256 of the public key.
    #[schema(value_type = schema::Digest)]
    pub key_id: String,
    /// From when on tokens are signed with it: nodes hear of it first.
    pub used_from: DateTime<Utc>,
    /// Until when its tokens count.
    pub not_after: DateTime<Utc>,
}
