//! `mfaas doctor`: looks for everything that a deploy needs, and says how to get what is missing.

mod check;
mod machine;

use mfaas_ident::{BuildVersion, sanitise_line};
use mfaas_supervisor::health;
use mfaas_wire::{BuildersView, NodeView, Page, WhoAmI};

use crate::client::trusting;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;
use check::{Check, Verdict};

/// What is shown of a builder that takes no builds.
const UNWELL_CHARS_MAX: usize = 300;
/// Nodes of other builds that are shown.
const BUILDS_SHOWN_MAX: usize = 10;

/// Check this machine and the way to the server; every complaint comes with its fix.
///
/// For example: `mfaas doctor`
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Look only at the way to the server, not at this machine's ability to run one.
    #[arg(long)]
    client_only: bool,
}

impl Doctor {
    /// Looks and tells; exit code 1 when something does not work.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut checks = if self.client_only { Vec::new() } else { machine::checks() };
        checks.push(server(context).await);
        let who = who(context).await;
        checks.push(token(&who));
        if let Ok(who) = &who {
            checks.push(builds(context, who).await);
        }
        checks.extend(agreement(context).await);
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
    let trusted = trusting(reqwest::Client::builder(), context.ca_file());
    let answer = match trusted.and_then(|builder| Ok(health::client_from(builder)?)) {
        Ok(http) => health::ask(&http, base).await,
        Err(failure) => Err(failure.to_string()),
    };
    match answer {
        Ok(troubles) if troubles.is_empty() => Check::good(NAME, format!("{base} is ready")),
        Ok(troubles) => {
            let told: Vec<String> = troubles.iter().map(ToString::to_string).collect();
            Check::weaker(
                NAME,
                format!("{base} is ready, degraded: {}", told.join("; ")),
                "deployments wait and nothing is lost; free the disk or bring back what is named, logs/ of the home has paths",
            )
        }
        Err(why) => Check::bad(
            NAME,
            why,
            "start everything with `mfaas up --detach`, look into logs/server.log of the home, or name the server with \
             --server or `mfaas login`",
        ),
    }
}

async fn who(context: &Context) -> Result<WhoAmI, Failure> {
    context.client()?.get("/v1/whoami").await
}

fn token(who: &Result<WhoAmI, Failure>) -> Check {
    const NAME: &str = "token";
    match who {
        Ok(who) => Check::good(NAME, format!("opens tenant {} as {}", who.tenant, who.token_name)),
        Err(failure) => Check::bad(
            NAME,
            failure.to_string(),
            "sign in with `mfaas login`; after `mfaas up` the first token is in the profile it names",
        ),
    }
}

/// Whether the site's programs are of one build, as far as the caller may see them: only operators may see nodes.
async fn builds(context: &Context, who: &WhoAmI) -> Check {
    let nodes = match context.client() {
        Ok(client) => client.get::<Page<NodeView>>("/v1/nodes").await.map_or(Vec::new(), |page| page.items),
        Err(_) => Vec::new(),
    };
    builds_of(&who.server_version, &nodes)
}

fn builds_of(server: &str, nodes: &[NodeView]) -> Check {
    const NAME: &str = "builds";
    let others: Vec<String> = nodes
        .iter()
        .filter(|node| node.reported_at.is_some())
        .filter(|node| node.build.as_ref().is_none_or(|build| build.as_str() != server))
        .map(|node| match &node.build {
            Some(build) => format!("node {} is {build}", node.name),
            None => format!("node {} does not say which build it is", node.name),
        })
        .take(BUILDS_SHOWN_MAX)
        .collect();
    let found =
        format!("the server is {}, this command {}", sanitise_line(server, 100), BuildVersion::this());
    if others.is_empty() {
        return Check::good(NAME, found);
    }
    Check::weaker(
        NAME,
        format!("{found}; {}", others.join("; ")),
        "an update has begun and is not ended: go on with the next step of docs/rolling-update.md",
    )
}

/// Whether enough builders live; only operators may ask, so nothing is said to others.
async fn agreement(context: &Context) -> Option<Check> {
    let asked = context.client().ok()?.get::<BuildersView>("/v1/builders").await;
    match asked {
        Ok(view) => Some(agreement_of(&view)),
        // No token, a weaker one, or a server of the release before: the checks above have said what is to be said.
        Err(_) => None,
    }
}

fn agreement_of(view: &BuildersView) -> Check {
    const NAME: &str = "builders";
    let live = view.builders.len();
    let needed = view.agreement.unwrap_or(1);
    let set = match view.agreement {
        Some(1) => "one builder is enough for a signature".to_owned(),
        Some(number) => format!("{number} builders with identities of their own have to agree"),
        None => "no signer of this release has said how many builders have to agree".to_owned(),
    };
    let there = format!("{set}; live builders: {live}, database roles that take builds: {}", view.identities);
    let unwell: Vec<String> = view
        .builders
        .iter()
        .filter_map(|builder| Some(format!("{}: {}", builder.role, builder.unwell.as_deref()?)))
        .map(|line| sanitise_line(&line, UNWELL_CHARS_MAX))
        .collect();
    let found = [vec![there], unwell.clone()].concat().join("; ");
    if view.identities < needed {
        return Check::bad(
            NAME,
            format!("{found}: deployments wait without an end"),
            "start builders until there are enough that take builds, each with a database role of its own (docs/operations.md, Several builders), or lower MFAAS_BUILDS_AGREEMENT at the signer",
        );
    }
    if unwell.is_empty() {
        return Check::good(NAME, found);
    }
    Check::weaker(
        NAME,
        found,
        "do what the cause asks for on the builder's machine; its log says when it can build again",
    )
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
