//! `mfaas doctor`: looks for everything that a deploy needs, and says how to get what is missing.

mod machine;

use mfaas_wire::WhoAmI;
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;
use crate::supervise::health;

/// Check this machine and the way to the server; every complaint comes with its fix.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Look only at the way to the server, not at this machine's ability to run one.
    #[arg(long)]
    client_only: bool,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// As it should be.
    Good,
    /// Works, with less protection or speed.
    Weaker,
    /// Does not work.
    Bad,
}

/// One finding.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do; empty when all is good.
    fix: String,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, found: found.into(), fix: String::new() }
    }

    fn weaker(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Weaker, found: found.into(), fix: fix.into() }
    }

    fn bad(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Bad, found: found.into(), fix: fix.into() }
    }
}

impl Doctor {
    /// Looks and tells; exit code 1 when something does not work.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut checks = if self.client_only { Vec::new() } else { machine::checks() };
        checks.push(server(context).await);
        checks.push(token(context).await);
        checks.push(pinned_root(context));
        context.screen.result(&checks, || drawing(&checks))?;
        let broken = checks.iter().any(|check| check.verdict == Verdict::Bad);
        Ok(if broken { Exit::Failed } else { Exit::Ok })
    }
}

fn drawing(checks: &[Check]) -> String {
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| {
            let mark = match check.verdict {
                Verdict::Good => "good",
                Verdict::Weaker => "weaker",
                Verdict::Bad => "BAD",
            };
            vec![mark.to_owned(), check.name.to_owned(), check.found.clone()]
        })
        .collect();
    let fixes: Vec<String> = checks
        .iter()
        .filter(|check| !check.fix.is_empty())
        .map(|check| format!("  = help: {}: {}", check.name, check.fix))
        .collect();
    [table(&["", "what", "found"], &rows), fixes.join("\n")].join("\n")
}

async fn server(context: &Context) -> Check {
    const NAME: &str = "server";
    let base = context.server();
    let answer = match health::client() {
        Ok(http) => health::ask(&http, base).await,
        Err(failure) => Err(failure.to_string()),
    };
    match answer {
        Ok(()) => Check::good(NAME, format!("{base} is ready")),
        Err(why) => Check::bad(
            NAME,
            why,
            "start everything with `mfaas up --detach`, look into logs/server.log of the home, or name the server with \
             --server or `mfaas login`",
        ),
    }
}

async fn token(context: &Context) -> Check {
    const NAME: &str = "token";
    let who = match context.client() {
        Ok(client) => client.get::<WhoAmI>("/v1/whoami").await,
        Err(failure) => Err(failure),
    };
    match who {
        Ok(who) => Check::good(NAME, format!("opens tenant {} as {}", who.tenant, who.token_name)),
        Err(failure) => Check::bad(
            NAME,
            failure.to_string(),
            "sign in with `mfaas login`; after `mfaas up` the first token is in the profile it names",
        ),
    }
}

fn pinned_root(context: &Context) -> Check {
    const NAME: &str = "pinned root";
    match context.pinned_root() {
        Ok(root) => Check::good(NAME, root.pin().short()),
        Err(failure) => Check::weaker(
            NAME,
            failure.to_string(),
            "`mfaas verify` needs it: put root_key into the profile, from the operator's root.pub",
        ),
    }
}

#[cfg(test)]
mod tests;
