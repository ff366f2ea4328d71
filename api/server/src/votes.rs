//! How a vote is cast, whether it comes from the console's form or over the API.
//!
//! Which votes lead to what is decided by the rules and done by the catalog. Here stands only what the
//! configuration of this server says about who may vote.

use mfaas_catalog::{NewVote, Token};
use mfaas_ident::IdentitySource;
use mfaas_rules::codes;
use mfaas_rules::review::{ReviewState, Terms};

use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

/// Votes for the crate on these terms, or against it; answers with the review's state after the vote.
pub(crate) async fn cast(
    app: &App,
    token: &Token,
    review: i64,
    approve: Option<&Terms>,
    note: &str,
) -> Result<ReviewState, Refusal> {
    let alone = app.provider.as_ref().is_some_and(|provider| provider.decides_alone());
    // A no is the safe side, so every reviewer may cast it.
    if alone && approve.is_some() && token.identity_source != IdentitySource::Provider {
        let detail =
            "On this site only people whom the identity provider has signed in approve; sign in with it.";
        return Err(Refusal::new(codes::MF0913, detail));
    }
    Ok(app.catalog.vote(&NewVote { review, token, approve, note }).await?)
}

/// Other people read it on their terminals, in a refusal too: it must be what it looks like.
pub(crate) fn check_note(note: &str) -> Result<(), Refusal> {
    // No text of the database can hold a NUL, either.
    if mfaas_ident::sanitise(note, usize::MAX) != note {
        return Err(Refusal::invalid("The note holds control or invisible characters."));
    }
    if (1..=limits::NOTE_CHARS_MAX).contains(&note.trim().chars().count()) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("A decision needs a note: 1 to {} characters.", limits::NOTE_CHARS_MAX)))
}
