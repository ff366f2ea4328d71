//! Callers of a node over HTTP who show call tokens, or none.
//!
//! It must never measure tokens at a node that does not look at them: one that a stranger signed has to be refused first.

use anyhow::{Context as _, ensure};
use chrono::Utc;
use mfaas_attest::{CALL_TOKEN_LIFE, CallClaims, PrivateKey, sign_call};
use mfaas_ident::{CallScope, PersonName, TenantName};

use super::node::{Started, TENANT};
use crate::functions::{Kind, request, verified};
use crate::sides::http::Client;
use crate::sides::{Kit, Latency, Timing};
use crate::sys::{Tsc, stamp};

/// What a caller shows with each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Nothing: anybody may call the function.
    Nothing,
    /// The same token with every call, which the node verified before.
    KnownToken,
    /// A token that the node has never seen, with every call another one.
    NewToken,
}

impl Shown {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nothing, Self::KnownToken, Self::NewToken];

    /// What measures call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "without a token",
            Self::KnownToken => "with a known token",
            Self::NewToken => "first call with a token",
        }
    }
}

/// A node with one function that anybody may call, and who calls it.
#[derive(Debug)]
pub struct Callers {
    started: Started,
    path: String,
}

impl Callers {
    /// Starts the node and sees that it looks at tokens.
    pub fn start(kit: &Kit) -> anyhow::Result<Self> {
        let (started, path) = Started::with_one_function(kit)?;
        let callers = Self { started, path };
        callers.see_a_stranger_refused()?;
        Ok(callers)
    }

    /// For the row.
    pub fn protections(&self) -> String {
        "all that the node runs with; started for this row".to_owned()
    }

    /// `calls` calls over a connection of their own, one at a time, behind a tenth as many that warm. Tokens are signed
    /// before the first of them.
    pub fn round(&self, shown: Shown, tsc: Tsc, calls: u64) -> anyhow::Result<Latency> {
        let warming = calls / 10;
        let known = sign(self.started.call_key(), 0)?;
        let tokens = (1..=warming + calls)
            .map(|number| match shown {
                Shown::Nothing => Ok(None),
                Shown::KnownToken => Ok(Some(known.clone())),
                Shown::NewToken => sign(self.started.call_key(), number).map(Some),
            })
            .collect::<anyhow::Result<Vec<Option<String>>>>()?;
        let mut client = self.connect()?;
        let mut taken = (0..)
            .zip(&tokens)
            .map(|(number, token)| call(&mut client, number, token.as_deref()))
            .collect::<anyhow::Result<Vec<Timing>>>()?;
        Ok(Latency::of(&taken.split_off(warming as usize), tsc))
    }

    fn see_a_stranger_refused(&self) -> anyhow::Result<()> {
        let token = sign(&PrivateKey::generate()?, 0)?;
        let refused = call(&mut self.connect()?, 0, Some(&token)).err();
        let refused = refused.context("the node answered to a token that a stranger signed")?;
        ensure!(refused.to_string().contains(" 401 "), "a stranger's token is met with: {refused:#}");
        Ok(())
    }

    fn connect(&self) -> anyhow::Result<Client> {
        Client::connect(self.started.address(), &self.path)
    }
}

/// One call, its answer verified.
fn call(client: &mut Client, number: u64, token: Option<&str>) -> anyhow::Result<Timing> {
    client.show(token);
    let request = request(number);
    let sent = stamp();
    let answer = client.post(&request)?;
    let answered = stamp();
    verified(&Kind::EMPTY.constants(0), &request, &answer)?;
    Ok(Timing { sent, answered })
}

/// A token for all of the tenant's functions, which nobody has seen.
fn sign(key: &PrivateKey, number: u64) -> anyhow::Result<String> {
    let now = Utc::now();
    let claims = CallClaims {
        tenant: TenantName::parse(TENANT)?,
        caller: PersonName::parse("bench")?,
        functions: CallScope::parse(&["*"])?,
        issued_at: now,
        expires_at: now + CALL_TOKEN_LIFE,
        id: format!("{}-{number}", now.timestamp_micros()),
        rate: None,
        concurrency: None,
    };
    Ok(sign_call(&claims, key)?)
}
