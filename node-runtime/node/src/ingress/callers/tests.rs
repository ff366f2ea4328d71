#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{TimeDelta, Utc};
use http::{HeaderMap, HeaderValue, header};
use mfaas_attest::{
    CALL_TOKEN_LIFE, CallClaims, CallKey, CallTokenError, Declared, PrivateKey, RevokedCalls, sign_call,
};
use mfaas_dispatch::Limits;
use mfaas_ident::{Access, AliasName, CallScope, FunctionRef, PersonName, TenantName};

use super::tokens::Tokens;
use super::{BAD_TOKENS, Callers, PeerKey};
use crate::agent::testing::key;
use crate::image::VerifiedImage;
use crate::limiter::Share;
use crate::logs::LogSink;
use crate::serving::{self, Dispatcher, Route, RouteChange};

/// More than a test uses.
const MUCH: Share = Share { rate: 1_000_000, concurrency: 1_000_000 };

/// The key as a serving set names it.
pub(crate) fn listed(key: &PrivateKey) -> CallKey {
    let public = key.public();
    CallKey { keyid: public.id(), public, not_after: Utc::now() + TimeDelta::days(1) }
}

/// A token of that tenant for these functions, changed by `change`.
pub(crate) fn token(
    key: &PrivateKey,
    tenant: &str,
    functions: &[&str],
    change: impl FnOnce(&mut CallClaims),
) -> String {
    let mut claims = CallClaims {
        tenant: TenantName::parse(tenant).unwrap(),
        caller: PersonName::parse("shop").unwrap(),
        functions: CallScope::parse(functions).unwrap(),
        issued_at: Utc::now(),
        expires_at: Utc::now() + CALL_TOKEN_LIFE,
        id: "1".to_owned(),
        rate: None,
        concurrency: None,
    };
    change(&mut claims);
    sign_call(&claims, key).unwrap()
}

fn peer(text: &str) -> PeerKey {
    PeerKey::of(text.parse::<IpAddr>().unwrap())
}

/// `acme` serves `open`, `own` and `named`, with one access each.
fn dispatcher() -> Dispatcher {
    let dispatcher = serving::alone(Limits::NODE, Arc::new(LogSink::default())).unwrap();
    for (name, access) in [("open", Access::Public), ("own", Access::Tenant), ("named", Access::Token)] {
        let key = key(name, 1);
        let declared = Declared { access: Some(access), ..Declared::default() };
        let mut route = Route::default();
        route.aliases.insert(AliasName::live(), key.version);
        let name = &(key.tenant.clone(), key.function.clone());
        route.images.insert(key.version, Arc::new(VerifiedImage::declaring_for_test(key, declared)));
        dispatcher.route(&[RouteChange { name, route: &route, revoked: None, resources: None }]);
    }
    dispatcher.note_whole();
    dispatcher
}

/// Callers and what they ask.
struct Stage {
    callers: Callers,
    dispatcher: Dispatcher,
    key: PrivateKey,
}

impl Stage {
    fn new(share: Share) -> Self {
        let (callers, key) = (Callers::new(share), PrivateKey::generate().unwrap());
        callers.hold(&[listed(&key)], &Arc::default());
        Self { callers, dispatcher: dispatcher(), key }
    }

    /// Status and code of a refusal, and what a caller is told besides; the name of the caller otherwise.
    fn ask(&self, authorization: &[&str], function: &str) -> Result<Option<String>, (u16, String)> {
        self.ask_from("10.0.0.1", authorization, function).map(|admitted| {
            admitted.header().map(|(name, value)| {
                assert_eq!(name, "mfaas-caller");
                value.to_owned()
            })
        })
    }

    fn ask_from(
        &self,
        from: &str,
        authorization: &[&str],
        function: &str,
    ) -> Result<super::Admitted, (u16, String)> {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(header::AUTHORIZATION, HeaderValue::try_from(*value).unwrap());
        }
        let (tenant, function) = function.split_once('/').unwrap();
        let (tenant, function) =
            (TenantName::parse(tenant).unwrap(), function.parse::<FunctionRef>().unwrap());
        self.callers.admit(&self.dispatcher, peer(from), &headers, (&tenant, &function)).map_err(|problem| {
            let response = problem.into_response();
            let more = response.headers().get(header::WWW_AUTHENTICATE);
            let more = more.or_else(|| response.headers().get(header::RETRY_AFTER));
            let more = more.map_or("", |value| value.to_str().unwrap());
            (response.status().as_u16(), more.to_owned())
        })
    }

    fn bearer(&self, tenant: &str, functions: &[&str]) -> String {
        format!("Bearer {}", token(&self.key, tenant, functions, |_| ()))
    }
}

fn nobody() -> Result<Option<String>, (u16, String)> {
    Err((401, "Bearer".to_owned()))
}

fn invalid() -> Result<Option<String>, (u16, String)> {
    Err((401, "Bearer error=\"invalid_token\"".to_owned()))
}

fn closed() -> Result<Option<String>, (u16, String)> {
    Err((403, "Bearer error=\"insufficient_scope\"".to_owned()))
}

#[test]
fn each_access_opens_to_whom_it_says() {
    let stage = Stage::new(MUCH);
    let shop = Ok(Some("acme/shop".to_owned()));
    assert_eq!(stage.ask(&[], "acme/open"), Ok(None), "anybody, and nobody in particular");
    for closed_to_all in ["acme/own", "acme/named", "acme/own@1", "acme/missing", "umbrella/missing"] {
        assert_eq!(stage.ask(&[], closed_to_all), nobody(), "{closed_to_all}");
    }
    let all = stage.bearer("acme", &["*"]);
    assert_eq!(stage.ask(&[&all], "acme/open"), shop);
    assert_eq!(stage.ask(&[&all], "acme/own"), shop);
    let named = stage.bearer("acme", &["named", "own"]);
    assert_eq!(stage.ask(&[&named], "acme/own"), shop);
    assert_eq!(stage.ask(&[&named], "acme/named"), shop);
    let other = stage.bearer("acme", &["other"]);
    let stranger = stage.bearer("umbrella", &["*", "own", "named"]);
    for function in ["acme/own", "acme/named", "acme/missing"] {
        assert_eq!(stage.ask(&[&other], function), closed(), "{function}");
        assert_eq!(stage.ask(&[&stranger], function), closed(), "{function}");
    }
    // Who is another tenant's caller calls what is public under that name.
    assert_eq!(stage.ask(&[&stranger], "acme/open"), Ok(Some("umbrella/shop".to_owned())));
}

#[test]
fn before_the_first_set_no_caller_is_refused_for_its_rights() {
    let mut stage = Stage::new(MUCH);
    let good = stage.bearer("acme", &["own"]);
    stage.callers = Callers::new(MUCH);
    let wait = || Err((503, "1".to_owned()));
    assert_eq!(stage.ask(&[], "acme/open"), wait());
    assert_eq!(stage.ask(&[&good], "acme/own"), wait());
    stage.callers.hold(&[], &Arc::default());
    assert_eq!(stage.ask(&[], "acme/open"), Ok(None));
    assert_eq!(stage.ask(&[&good], "acme/own"), invalid());
}

/// A star is no right to what has to be named: the dispatcher, which decides again with the version that runs, says that there is
/// no such function.
#[tokio::test]
async fn what_has_to_be_named_is_not_there_for_a_star() {
    use crate::serving::{Asked, CallError, Way};
    let stage = Stage::new(MUCH);
    let star = stage.bearer("acme", &["*"]);
    for name in ["named", "missing"] {
        let admitted = stage.ask_from("10.0.0.1", &[&star], &format!("acme/{name}")).unwrap();
        let (tenant, function) = (TenantName::parse("acme").unwrap(), name.parse().unwrap());
        let asked = Asked {
            tenant: &tenant,
            function: &function,
            selector: None,
            wait_max: None,
            grant: admitted.grant,
            way: Way::Direct,
        };
        assert_eq!(stage.dispatcher.call(asked, Vec::new()).await.unwrap_err(), CallError::Unknown, "{name}");
    }
}

#[test]
fn a_token_that_does_not_count_is_refused_even_where_none_is_needed() {
    let stage = Stage::new(MUCH);
    let good = stage.bearer("acme", &["own"]);
    let other = token(&PrivateKey::generate().unwrap(), "acme", &["own"], |_| ());
    let over = token(&stage.key, "acme", &["own"], |claims| {
        claims.issued_at = Utc::now() - TimeDelta::minutes(10);
        claims.expires_at = Utc::now() - TimeDelta::seconds(1);
    });
    let early = token(&stage.key, "acme", &["own"], |claims| {
        claims.issued_at = Utc::now() + TimeDelta::minutes(2);
    });
    let bad = [format!("Bearer {other}"), format!("Bearer {over}"), format!("Bearer {early}")];
    let bad = bad.iter().map(String::as_str).chain(["Bearer", "bearer x", "Bearer eyJhbGciOiJub25lIn0.e30."]);
    for text in bad {
        for function in ["acme/open", "acme/own", "acme/missing"] {
            assert_eq!(stage.ask(&[text], function), invalid(), "{text} {function}");
        }
    }
    assert_eq!(stage.ask(&[&good, &good], "acme/own"), invalid(), "which of them is it?");
    assert_eq!(stage.ask(&["Basic YTpi"], "acme/open"), Ok(None), "meant for somebody else");
    assert_eq!(stage.ask(&["Basic YTpi"], "acme/own"), nobody());
    assert!(stage.ask(&[&good.replace("Bearer", "bEARER")], "acme/own").is_ok());
}

/// Checking a signature costs more than anything else here, so an address gets so many for nothing.
#[test]
fn an_address_that_tries_tokens_is_not_listened_to_for_a_while() {
    let stage = Stage::new(MUCH);
    let good = stage.bearer("acme", &["own"]);
    assert!(stage.ask(&[&good], "acme/own").is_ok());
    let tried: Vec<_> = (0..=BAD_TOKENS.rate + 20)
        .map(|number| stage.ask(&[&format!("Bearer {number}")], "acme/own").unwrap_err().0)
        .collect();
    assert_eq!(tried[..BAD_TOKENS.rate as usize], vec![401; BAD_TOKENS.rate as usize]);
    assert!(tried.contains(&429), "{tried:?}");
    assert!(stage.ask(&[&good], "acme/own").is_ok(), "a token that is known is no attempt");
    assert!(stage.ask_from("10.0.0.2", &["Bearer x"], "acme/own").unwrap_err().0 == 401);
}

#[test]
fn keys_that_are_held_no_more_open_nothing_at_once() {
    let stage = Stage::new(MUCH);
    let (old, next) = (stage.bearer("acme", &["own"]), PrivateKey::generate().unwrap());
    assert!(stage.ask(&[&old], "acme/own").is_ok());
    stage.callers.hold(&[listed(&next), listed(&stage.key)], &Arc::default());
    assert!(stage.ask(&[&old], "acme/own").is_ok(), "until its last token is over");
    let new = format!("Bearer {}", token(&next, "acme", &["own"], |_| ()));
    assert!(stage.ask(&[&new], "acme/own").is_ok());
    stage.callers.hold(&[listed(&next)], &Arc::default());
    assert_eq!(stage.ask(&[&old], "acme/own"), invalid());
    assert!(stage.ask(&[&new], "acme/own").is_ok());
}

/// A token of `acme/shop` with that id.
fn numbered(stage: &Stage, id: &str) -> String {
    format!("Bearer {}", token(&stage.key, "acme", &["own"], |claims| claims.id = id.to_owned()))
}

#[test]
fn a_revoked_token_is_refused_whether_it_was_known_or_not() {
    let stage = Stage::new(MUCH);
    let [known, unknown, other] = ["1", "2", "3"].map(|id| numbered(&stage, id));
    assert!(stage.ask(&[&known], "acme/own").is_ok() && stage.ask(&[&other], "acme/own").is_ok());
    let mut revoked = RevokedCalls::default();
    for id in ["1", "2"] {
        revoked.revoke_token(TenantName::parse("acme").unwrap(), id.to_owned());
    }
    stage.callers.hold(&[listed(&stage.key)], &Arc::new(revoked.clone()));
    for text in [&known, &unknown] {
        // Its signature is checked once at most, so whoever goes on with it is not counted as somebody who tries tokens.
        for _ in 0..BAD_TOKENS.rate * 3 {
            assert_eq!(stage.ask(&[text], "acme/own"), invalid());
            assert_eq!(stage.ask(&[text], "acme/open"), invalid(), "whoever sends a token means it");
        }
    }
    assert!(stage.ask(&[&other], "acme/own").is_ok(), "of the same caller");
    revoked.revoke_caller(
        TenantName::parse("acme").unwrap(),
        PersonName::parse("shop").unwrap(),
        Utc::now() + TimeDelta::seconds(1),
    );
    stage.callers.hold(&[listed(&stage.key)], &Arc::new(revoked));
    assert_eq!(stage.ask(&[&other], "acme/own"), invalid());
    let new = token(&stage.key, "acme", &["own"], |claims| claims.issued_at += TimeDelta::seconds(5));
    assert_eq!(stage.ask(&[&format!("Bearer {new}")], "acme/own"), invalid(), "it has an id that is revoked");
    let new = token(&stage.key, "acme", &["own"], |claims| {
        claims.issued_at += TimeDelta::seconds(5);
        claims.id = "4".to_owned();
    });
    assert!(stage.ask(&[&format!("Bearer {new}")], "acme/own").is_ok(), "issued afterwards");
}

/// Other revocations do not make a node verify anew what it knows: one tenant that revokes would cost all others a signature.
#[test]
fn what_is_known_stays_known_when_others_are_revoked() {
    let (tokens, key) = (Tokens::default(), PrivateKey::generate().unwrap());
    let keys = [listed(&key)];
    tokens.hold(&keys, Arc::default());
    let text = token(&key, "acme", &["own"], |_| ());
    let now = SystemTime::now();
    let known = tokens.verify(&text, now).unwrap();
    let mut revoked = RevokedCalls::default();
    revoked.revoke_token(TenantName::parse("umbrella").unwrap(), "1".to_owned());
    tokens.hold(&keys, Arc::new(revoked.clone()));
    assert!(tokens.known(&text, now).is_some_and(|known| known.is_ok()) && tokens.check(&known).is_ok());
    revoked.revoke_token(TenantName::parse("acme").unwrap(), "1".to_owned());
    tokens.hold(&keys, Arc::new(revoked));
    assert_eq!(tokens.known(&text, now).unwrap().unwrap_err(), CallTokenError::Revoked);
    assert_eq!(tokens.check(&known), Err(CallTokenError::Revoked), "a call on its way asks again");
    tokens.hold(&keys, Arc::default());
    assert!(tokens.known(&text, now).is_some_and(|known| known.is_ok()), "a set that says so alone revokes");
}

#[test]
fn a_known_token_ends_with_its_time() {
    let (tokens, key) = (Tokens::default(), PrivateKey::generate().unwrap());
    tokens.hold(&[listed(&key)], Arc::default());
    let text = token(&key, "acme", &["own"], |_| ());
    let now = SystemTime::now();
    assert!(tokens.known(&text, now).is_none(), "nobody has verified it");
    tokens.verify(&text, now).unwrap();
    assert!(tokens.known(&text, now).is_some());
    assert!(tokens.known(&text, now + Duration::from_secs(14 * 60)).is_some());
    assert!(tokens.known(&text, now + Duration::from_secs(15 * 60 + 1)).is_none());
    assert!(tokens.known(&text, now - Duration::from_secs(3_600)).is_none(), "a clock that was set back");
}

#[test]
fn each_caller_has_its_share_of_each_function_and_a_token_may_say_less() {
    let stage = Stage::new(Share { rate: 3, concurrency: 100 });
    let over = || (429, "1".to_owned());
    for _ in 0..3 {
        assert!(stage.ask(&[], "acme/open").is_ok());
    }
    assert_eq!(stage.ask(&[], "acme/open"), Err(over()));
    let mine = stage.bearer("acme", &["*"]);
    assert!(stage.ask(&[&mine], "acme/open").is_ok(), "a token is another caller than its address");
    assert!(stage.ask_from("10.0.0.2", &[], "acme/open").is_ok());
    let low = |claims: &mut CallClaims| {
        claims.caller = PersonName::parse("slow").unwrap();
        claims.rate = Some(1);
    };
    // Another token of the same caller is the same caller.
    for (number, wanted) in [(1, true), (2, false)] {
        let text = token(&stage.key, "acme", &["*"], |claims| {
            low(claims);
            claims.id = number.to_string();
        });
        assert_eq!(stage.ask(&[&format!("Bearer {text}")], "acme/own").is_ok(), wanted, "{number}");
        assert_eq!(stage.ask(&[&format!("Bearer {text}")], "acme/open").is_ok(), wanted, "{number}");
    }
    let one = token(&stage.key, "acme", &["*"], |claims| {
        claims.caller = PersonName::parse("narrow").unwrap();
        claims.concurrency = Some(1);
    });
    let one = format!("Bearer {one}");
    let _held = stage.ask_from("10.0.0.1", &[&one], "acme/own").unwrap();
    assert_eq!(stage.ask(&[&one], "acme/own"), Err(over()));
}

#[test]
fn an_address_is_one_party() {
    assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
    assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
    assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
    assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
}

/// A statement from before does not say who may call: its image does, and says the tenant.
#[test]
fn an_image_whose_statement_is_silent_is_the_tenants() {
    let silent = VerifiedImage::declaring_for_test(key("old", 1), Declared::default());
    assert_eq!(silent.declared().access(), Access::Tenant);
}
