//! `mfaas node join-token`: what nodes join with is made, listed and revoked.

use mfaas_ident::NodeName;
use mfaas_wire::{
    CreateJoinToken, JOIN_TOKEN_HOURS_MAX, JOIN_TOKEN_USES_MAX, JoinTokenCreated, JoinTokenView, Page,
};
use uuid::Uuid;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Make a token with which nodes join, and print it; needs an admin's token. Each node takes it from a file.
///
/// For example: `mfaas node join-token --uses 3`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct JoinToken {
    /// How many nodes may join with it.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(JOIN_TOKEN_USES_MAX)))]
    uses: u32,
    /// For how many hours.
    #[arg(long, value_name = "H", default_value_t = 24,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(JOIN_TOKEN_HOURS_MAX)))]
    hours: u32,
    /// The only name that it lets join, also in the place of a node that has lost its certificate. Any name that no node
    /// has if not given.
    #[arg(long = "node", value_name = "NODE")]
    name: Option<NodeName>,
    #[command(subcommand)]
    command: Option<JoinTokenCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum JoinTokenCommand {
    /// List the join tokens that are not over, or ended within a day: who made each, and how often it may be used.
    ///
    /// For example: `mfaas node join-token list`
    List,
    /// Revoke a join token: nobody joins with it any more. Nodes that joined with it stay.
    ///
    /// For example: `mfaas node join-token revoke 0198f2c0-0e52-7a3e-8d7c-9b450e1c3fd0`
    Revoke {
        /// Its id, of `mfaas node join-token list`.
        #[arg(value_name = "ID")]
        id: Uuid,
    },
}

impl JoinToken {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context, client: &Client) -> Result<Exit, Failure> {
        match self.command {
            None => {
                let wanted = CreateJoinToken { uses: self.uses, hours: self.hours, node: self.name };
                create(context, client, &wanted).await
            }
            Some(JoinTokenCommand::List) => list(context, client).await,
            Some(JoinTokenCommand::Revoke { id }) => revoke(context, client, id).await,
        }
    }
}

async fn create(context: &Context, client: &Client, wanted: &CreateJoinToken) -> Result<Exit, Failure> {
    let made: JoinTokenCreated = client.post("/v1/join-tokens", wanted).await?;
    context.screen.result(&made, || made.token.clone())?;
    context.screen.note(&format!(
        "good until {} for {} of {}; give it to each with `mfaas-node join --token-file FILE`",
        made.expires_at.format("%Y-%m-%d %H:%M UTC"),
        if made.uses == 1 { "one node".to_owned() } else { format!("{} nodes", made.uses) },
        made.node.as_ref().map_or("any name that no node has".to_owned(), ToString::to_string),
    ));
    Ok(Exit::Ok)
}

async fn list(context: &Context, client: &Client) -> Result<Exit, Failure> {
    let page: Page<JoinTokenView> = client.get("/v1/join-tokens").await?;
    context.screen.result(&page, || {
        let rows: Vec<_> = page.items.iter().map(row).collect();
        if rows.is_empty() {
            "there is no join token".to_owned()
        } else {
            table(&["id", "node", "uses left", "made by", "made", "ends", "revoked"], &rows)
        }
    })?;
    Ok(Exit::Ok)
}

async fn revoke(context: &Context, client: &Client, id: Uuid) -> Result<Exit, Failure> {
    let revoked: JoinTokenView = client.delete(&format!("/v1/join-tokens/{id}")).await?;
    context.screen.result(&revoked, || format!("{id} is revoked: nobody joins with it any more"))?;
    let used = revoked.uses - revoked.uses_left.min(revoked.uses);
    if used > 0 {
        let nodes = if used == 1 { "one node".to_owned() } else { format!("{used} nodes") };
        context
            .screen
            .note(&format!("{nodes} joined with it: see the audit log for which, and `mfaas node remove`"));
    }
    Ok(Exit::Ok)
}

fn row(token: &JoinTokenView) -> Vec<String> {
    let at = |time: &chrono::DateTime<chrono::Utc>| time.format("%Y-%m-%d %H:%M").to_string();
    vec![
        token.id.clone(),
        token.node.as_ref().map_or("any".to_owned(), ToString::to_string),
        format!("{} of {}", token.uses_left, token.uses),
        token.created_by.clone(),
        at(&token.created_at),
        at(&token.expires_at),
        token.revoked_at.as_ref().map_or("-".to_owned(), at),
    ]
}
