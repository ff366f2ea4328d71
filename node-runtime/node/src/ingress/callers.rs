//! Who calls, whether they may, and how much of it: asked once for each call, before its body is read.
//!
//! A caller shows a call token or is nobody but an address. What it may call stands in the function's signed statement
//! ([`mfaas_ident::Access`]); whether a token counts is decided here alone, with the keys of the signed serving set. Must never
//! let a caller without rights tell a function that exists from one that does not, pass a token on to a function, or hold more
//! than its bounds ([`crate::recent`]).

mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use http::{HeaderMap, StatusCode, header};
use mfaas_attest::{CallKey, CallTokenError, RevokedCalls};
use mfaas_delivery::Availability;
use mfaas_ident::{Access, Class, FunctionName, FunctionRef, PeerKey, TenantName};
use mfaas_rules::codes;

use tokens::{Known, Tokens};

use super::problem::Problem;
use super::refusal::refused;
use crate::grant::Grant;
use crate::limiter::{Limiter, Place, Share};
use crate::serving::{CALLER, CallError, Dispatcher};

/// Whose name stands in [`CALLER`] for programs of this machine. No token can say it: their names have a slash.
pub(crate) const LOCAL: &str = "local";

/// What `WWW-Authenticate` says (RFC 6750 3): nothing was shown, it does not count, it is for something else.
const CHALLENGE: &str = "Bearer";
const CHALLENGE_INVALID: &str = "Bearer error=\"invalid_token\"";
const CHALLENGE_SCOPE: &str = "Bearer error=\"insufficient_scope\"";

/// Tokens that do not count, of one address: each costs a signature's check, and people mistype less often.
const BAD_TOKENS: Share = Share { rate: 20, concurrency: 1 };

/// Everything that is remembered of callers.
#[derive(Debug)]
pub(crate) struct Callers {
    tokens: Tokens,
    limiter: Limiter,
    /// What one caller gets of one function, unless its token says less.
    share: Share,
    /// The last set that came has expired.
    expired: AtomicBool,
}

/// A call that may be made. Its place among the caller's calls is given back with this.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(super) grant: Grant,
    /// Of the version that was named then; of a name that leads nowhere the one that may do less.
    pub(super) class: Class,
    caller: Option<Arc<Known>>,
    _place: Place,
}

impl Admitted {
    /// The header that tells the function who calls.
    pub(super) fn header(&self) -> Option<(&str, &str)> {
        self.caller.as_ref().map(|known| (CALLER, known.name.as_str()))
    }
}

/// Whom a call counts against.
#[derive(Hash)]
enum Whom<'a> {
    Token(&'a str),
    Address(PeerKey),
}

impl Callers {
    /// Callers of which each gets `share` of each function.
    pub(crate) fn new(share: Share) -> Self {
        Self {
            tokens: Tokens::default(),
            limiter: Limiter::default(),
            share,
            expired: AtomicBool::new(false),
        }
    }

    /// From now on tokens of these keys count, and of no others, but for those that were revoked.
    pub(crate) fn hold(&self, keys: &[CallKey], revoked: &Arc<RevokedCalls>) {
        self.tokens.hold(keys, Arc::clone(revoked));
    }

    /// The set that came has expired; without another one in force the node serves nothing.
    pub(crate) fn note_expired(&self) {
        self.expired.store(true, Ordering::Relaxed);
    }

    /// Why no set is in force, for operators.
    pub(super) fn why_no_set(&self) -> &'static str {
        if self.expired.load(Ordering::Relaxed) {
            "the last serving set has expired: the node serves nothing until the server gives it the next one\n"
        } else {
            "no serving set is loaded\n"
        }
    }

    /// Whether a set is in force, with its keys for call tokens: before that nothing is known of any name.
    pub(super) fn know_names(&self, dispatcher: &Dispatcher) -> bool {
        self.tokens.are_ready() && dispatcher.is_serving()
    }

    /// Decides about a call by its head.
    pub(super) fn admit(
        &self,
        dispatcher: &Dispatcher,
        peer: PeerKey,
        headers: &HeaderMap,
        (tenant, function): (&TenantName, &FunctionRef),
    ) -> Result<Admitted, Problem> {
        if dispatcher.standing().availability() == Availability::Draining {
            return Err(refused(CallError::Draining));
        }
        if !self.know_names(dispatcher) {
            return Err(refused(CallError::NotLoaded));
        }
        let caller = self.identify(peer, headers)?;
        let grant = match &caller {
            Some(known) if known.claims.tenant == *tenant => {
                Grant::of(&known.claims.functions, &function.name)
            }
            Some(_) | None => Grant::NOTHING,
        };
        // Whoever may call something of that name hears of what is not there from the dispatcher, as of what has gone meanwhile.
        let named = dispatcher.named(tenant, &function.name, function.selector.as_ref());
        let (access, class) = (named.map(|(access, _)| access), named.map(|(_, class)| class));
        if !grant.is_something() && access != Some(Access::Public) {
            // Which names are public is known when they are loaded. Until all are, any name may be one, so none tells anything.
            if access.is_none() && !dispatcher.is_whole() {
                dispatcher.hasten(tenant, &function.name, function.selector.as_ref());
                return Err(refused(CallError::NotLoaded));
            }
            return Err(closed(caller.is_some()));
        }
        let (whom, share) = match &caller {
            Some(known) => (Whom::Token(&known.name), known.share(self.share)),
            None => (Whom::Address(peer), self.share),
        };
        let place = self.place((&whom, tenant, &function.name), share)?;
        Ok(Admitted { grant, class: class.unwrap_or_default(), caller, _place: place })
    }

    /// Asked again when the call's body has arrived: its token may have been revoked meanwhile.
    pub(super) fn check(&self, admitted: &Admitted) -> Result<(), Problem> {
        let checked = admitted.caller.as_ref().map_or(Ok(()), |known| self.tokens.check(known));
        checked.map_err(refused_token)
    }

    /// Who calls; nobody in particular without a token. A token that does not count is a refusal even where none is needed:
    /// whoever sends one takes it for good.
    fn identify(&self, peer: PeerKey, headers: &HeaderMap) -> Result<Option<Arc<Known>>, Problem> {
        let Some(text) = bearer(headers)? else { return Ok(None) };
        if let Some(known) = self.tokens.known(text, SystemTime::now()) {
            return known.map(Some).map_err(refused_token);
        }
        let bad = ("bad tokens", peer);
        if let Err(wait_s) = self.limiter.look(&bad, BAD_TOKENS) {
            return Err(over("too many call tokens that do not count came from this address", wait_s));
        }
        self.tokens.verify(text, SystemTime::now()).map(Some).map_err(|error| {
            // Whether it fits was looked at just now; a few more that came meanwhile do no harm.
            let _ = self.limiter.take(&bad, BAD_TOKENS);
            refused_token(error)
        })
    }

    fn place(&self, whom: (&Whom<'_>, &TenantName, &FunctionName), share: Share) -> Result<Place, Problem> {
        self.limiter.take(&whom, share).map_err(|wait_s| {
            over("the caller's calls a second, or calls at a time, of this function are used up", wait_s)
        })
    }
}

/// The call token of a request. Two are none: which of them counts is not for us to say. Credentials of other schemes are
/// nobody's business here.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(invalid("there is more than one Authorization header"));
    }
    let text = value.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    Ok(scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()))
}

/// The answer about a function that this caller has no right to, and about one that is not there: the same for both.
fn closed(is_known: bool) -> Problem {
    if is_known {
        Problem::of(StatusCode::FORBIDDEN, codes::MF0817).with(header::WWW_AUTHENTICATE, CHALLENGE_SCOPE)
    } else {
        Problem::of(StatusCode::UNAUTHORIZED, codes::MF0816).with(header::WWW_AUTHENTICATE, CHALLENGE)
    }
}

/// The answer to a token that does not count.
fn refused_token(error: CallTokenError) -> Problem {
    match error {
        CallTokenError::Revoked => Problem::of(StatusCode::UNAUTHORIZED, codes::MF0920)
            .with(header::WWW_AUTHENTICATE, CHALLENGE_INVALID),
        CallTokenError::Malformed
        | CallTokenError::UnknownKey
        | CallTokenError::BadSignature
        | CallTokenError::BadClaims
        | CallTokenError::NotYet
        | CallTokenError::Expired => invalid(&error.to_string()),
    }
}

fn invalid(why: &str) -> Problem {
    Problem::of(StatusCode::UNAUTHORIZED, codes::MF0816)
        .detail(why)
        .with(header::WWW_AUTHENTICATE, CHALLENGE_INVALID)
}

fn over(why: &str, wait_s: u32) -> Problem {
    Problem::of(StatusCode::TOO_MANY_REQUESTS, codes::MF0818).detail(why).retry_after(wait_s)
}

#[cfg(test)]
pub(super) mod tests;
