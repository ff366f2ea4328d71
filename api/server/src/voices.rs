//! The one road of a voice, whether it comes from the console's form or over the API.
//!
//! Which voices lead to what is decided by the rules and done by the catalog. Here stands only what the
//! configuration of this server says about who may speak.

use mfaas_catalog::{NewVoice, Token};
use mfaas_ident::Voucher;
use mfaas_rules::codes;
use mfaas_rules::review::{ReviewState, Terms};

use crate::app::App;
use crate::refusal::Refusal;

/// Says yes on these terms, or no; answers with what the review is now.
pub async fn give(
    app: &App,
    token: &Token,
    review: i64,
    approve: Option<&Terms>,
    note: &str,
) -> Result<ReviewState, Refusal> {
    let alone = app.provider.as_ref().is_some_and(|provider| provider.decides_alone());
    // A no is the safe side, so anybody with the right may say it.
    if alone && approve.is_some() && token.vouched_by != Voucher::Provider {
        let detail =
            "On this site only people whom the identity provider has signed in approve; sign in with it.";
        return Err(Refusal::new(codes::MF0913, detail));
    }
    Ok(app.catalog.vote(&NewVoice { review, token, approve, note }).await?)
}
