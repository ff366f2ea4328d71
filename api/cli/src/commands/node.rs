//! `mfaas node`: the serving machines, how they join and leave, what they are to take, and what they have banned.

mod isolation;
mod join_token;
mod unban;

use std::time::Duration;

use mfaas_ident::NodeName;
use mfaas_wire::{Availability, BanView, Condition, NodeState, NodeView, Page, Removed, SetAvailability};

use isolation::Isolation;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

pub(crate) use join_token::JoinToken;
pub(crate) use unban::Unban;

/// How often `--wait` asks.
const WAIT_EVERY: Duration = Duration::from_millis(500);

/// The serving machines.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NodeCommand {
    /// List the nodes: what each should serve and take, and what it says about that.
    ///
    /// For example: `mfaas node list`
    List,
    JoinToken(JoinToken),
    /// Remove a node: its certificate opens nothing any more. Stop it, or it goes on serving what it has until that expires.
    ///
    /// For example: `mfaas node remove node-1`
    Remove {
        /// The node.
        #[arg(value_name = "NODE")]
        name: NodeName,
    },
    /// Let a node take no new versions; it goes on serving what it has.
    ///
    /// For example: `mfaas node cordon node-1`
    Cordon {
        /// The node.
        #[arg(value_name = "NODE")]
        name: NodeName,
    },
    /// Let a node take everything again, after a cordon or a drain.
    ///
    /// For example: `mfaas node uncordon node-1`
    Uncordon {
        /// The node.
        #[arg(value_name = "NODE")]
        name: NodeName,
    },
    /// Let a node take neither new versions nor new calls; it answers those that it has accepted.
    ///
    /// For example: `mfaas node drain node-1 --wait`
    Drain {
        /// The node.
        #[arg(value_name = "NODE")]
        name: NodeName,
        /// Return when the node says that it has answered all of them.
        #[arg(long)]
        wait: bool,
        /// How long to wait, in seconds; ends with 8 when that was not enough.
        #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "wait")]
        timeout: u64,
    },
    /// List the versions that no node runs because they crashed workers of one.
    ///
    /// For example: `mfaas node bans`
    Bans,
    Unban(Unban),
    Isolation(Isolation),
}

impl Node {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client();
        match self.command {
            // It is asked on this machine, whatever became of servers, unless the site is meant.
            NodeCommand::Isolation(isolation) => isolation.run(context).await,
            NodeCommand::List => list(context, &client?).await,
            NodeCommand::JoinToken(join_token) => join_token.run(context, &client?).await,
            NodeCommand::Remove { name } => remove(context, &client?, &name).await,
            NodeCommand::Cordon { name } => set(context, &client?, &name, Availability::Cordoned).await,
            NodeCommand::Uncordon { name } => set(context, &client?, &name, Availability::Active).await,
            NodeCommand::Drain { name, wait: false, .. } => {
                set(context, &client?, &name, Availability::Draining).await
            }
            NodeCommand::Drain { name, wait: true, timeout } => {
                drain(context, &client?, &name, Duration::from_secs(timeout)).await
            }
            NodeCommand::Bans => bans(context, &client?).await,
            NodeCommand::Unban(unban) => unban.run(context).await,
        }
    }
}

async fn list(context: &Context, client: &Client) -> Result<Exit, Failure> {
    let page: Page<NodeView> = client.get("/v1/nodes").await?;
    context.screen.result(&page, || {
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(
            &[
                "node",
                "state",
                "availability",
                "isolation",
                "epoch",
                "desired",
                "loaded",
                "build",
                "ingress",
                "reported",
            ],
            &rows,
        )
    })?;
    for node in &page.items {
        if let Some(protection) = &node.protection {
            context.screen.note(&format!("{}: {protection}", node.name));
        }
        node.problems.iter().for_each(|problem| context.screen.note(&format!("{}: {problem}", node.name)));
    }
    Ok(Exit::Ok)
}

async fn remove(context: &Context, client: &Client, name: &NodeName) -> Result<Exit, Failure> {
    let removed: Removed = client.delete(&format!("/v1/nodes/{name}")).await?;
    context
        .screen
        .result(&removed, || format!("{name} is removed, and its certificate opens nothing any more"))?;
    Ok(Exit::Ok)
}

async fn put(client: &Client, name: &NodeName, availability: Availability) -> Result<NodeView, Failure> {
    client.put(&format!("/v1/nodes/{name}/availability"), &SetAvailability { availability }).await
}

async fn set(
    context: &Context,
    client: &Client,
    name: &NodeName,
    availability: Availability,
) -> Result<Exit, Failure> {
    let view = put(client, name, availability).await?;
    context.screen.result(&view, || format!("{name}: {}", said(availability)))?;
    Ok(Exit::Ok)
}

fn said(availability: Availability) -> &'static str {
    match availability {
        Availability::Active => "takes calls and new versions",
        Availability::Cordoned => "takes calls, and no new versions",
        Availability::Draining => "takes neither calls nor new versions",
    }
}

/// Asks until a report that is younger than the order says `drained`.
async fn drain(
    context: &Context,
    client: &Client,
    name: &NodeName,
    timeout: Duration,
) -> Result<Exit, Failure> {
    let deadline = tokio::time::Instant::now() + timeout;
    let mut view = put(client, name, Availability::Draining).await?;
    let spinner = context.screen.spinner(&format!("{name} answers what it has accepted"));
    loop {
        if let Some(exit) = drained(&view)? {
            drop(spinner);
            context.screen.result(&view, || format!("{name} is drained"))?;
            return Ok(exit);
        }
        if tokio::time::Instant::now() >= deadline {
            drop(spinner);
            context.screen.result(&view, || format!("{name} is not drained yet"))?;
            return Ok(Exit::Pending);
        }
        tokio::time::sleep(WAIT_EVERY).await;
        let page: Page<NodeView> = client.get("/v1/nodes").await?;
        let found = page.items.into_iter().find(|node| node.name == *name);
        view = found.ok_or_else(|| Failure::Local(format!("{name} is not there any more")))?;
    }
}

/// Whether there is nothing more to wait for.
fn drained(view: &NodeView) -> Result<Option<Exit>, Failure> {
    if view.availability != Availability::Draining {
        return Err(Failure::Local(format!("another operator has let {} take calls again", view.name)));
    }
    let says_so = view.condition == Some(Condition::Drained) && view.state != NodeState::Silent;
    let is_news = view.reported_at >= view.availability_since;
    Ok((says_so && is_news).then_some(Exit::Ok))
}

async fn bans(context: &Context, client: &Client) -> Result<Exit, Failure> {
    let path = format!("/v1/bans{}", context.own_tenant_if_named().replacen('&', "?", 1));
    let page: Page<BanView> = client.get(&path).await?;
    context.screen.result(&page, || {
        let rows: Vec<_> = page.items.iter().map(ban_row).collect();
        if rows.is_empty() {
            "nothing is banned".to_owned()
        } else {
            table(&["ban", "function", "artifact", "node", "crashes", "since"], &rows)
        }
    })?;
    Ok(Exit::Ok)
}

fn ban_row(ban: &BanView) -> Vec<String> {
    vec![
        ban.id.to_string(),
        format!("{}/{}@{}", ban.tenant, ban.function, ban.version),
        ban.digest.short(),
        ban.node.to_string(),
        ban.crashes.to_string(),
        ban.since.format("%Y-%m-%d %H:%M").to_string(),
    ]
}

/// What an operator wants, and in brackets what the node says where that is something else.
fn availability(node: &NodeView) -> String {
    let wanted = node.availability.as_str();
    match node.condition {
        Some(Condition::Drained) if node.availability == Availability::Draining => {
            Condition::Drained.as_str().to_owned()
        }
        Some(condition) if condition.as_str() != wanted => format!("{wanted} (is {})", condition.as_str()),
        Some(_) | None => wanted.to_owned(),
    }
}

fn row(node: &NodeView) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        node.name.to_string(),
        node.state.as_str().to_owned(),
        availability(node),
        isolation::in_short(node),
        or_dash(node.reported_epoch.map(|epoch| epoch.to_string())),
        node.desired_epoch.to_string(),
        node.loaded.to_string(),
        or_dash(node.build.as_ref().map(ToString::to_string)),
        or_dash(node.ingress_url.clone()),
        or_dash(node.reported_at.map(|at| at.format("%H:%M:%S").to_string())),
    ]
}

#[cfg(test)]
mod tests;
