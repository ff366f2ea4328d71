//! `mfaas token`: who may do what.

use mfaas_ident::{PersonName, Scope};
use mfaas_wire::{CreateToken, Page, Removed, TokenCreated, TokenView};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Access tokens.
#[derive(Debug, clap::Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Make a token for your tenant, or another with --tenant; its secret is shown once.
    Create {
        /// What to call it.
        #[arg(value_name = "NAME")]
        name: String,
        /// What it may do: read, deploy, review, admin.
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', default_value = "read,deploy")]
        scopes: Vec<Scope>,
        /// Whose voice it speaks with in reviews; its own, `tenant/name`, if not given. Two tokens of
        /// one person are one voice.
        #[arg(long, value_name = "PERSON")]
        person: Option<PersonName>,
    },
    /// List the tokens, without their secrets.
    List,
    /// Withdraw a token at once.
    Revoke {
        /// The public half of the token, as `token list` shows it.
        #[arg(value_name = "ID")]
        id: String,
    },
}

impl Token {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        match self.command {
            TokenCommand::Create { name, scopes, person } => {
                // `--tenant` names the tenant that the new token opens.
                let tenant = context.global.tenant.clone();
                let created: TokenCreated =
                    client.post("/v1/tokens", &CreateToken { name, scopes, tenant, person }).await?;
                context.screen.result(&created, || created.secret.clone())?;
                context.screen.note("this is the only time that the secret is shown");
            }
            TokenCommand::List => {
                let page: Page<TokenView> = client.get("/v1/tokens").await?;
                context.screen.result(&page, || {
                    table(
                        &["id", "tenant", "name", "person", "scopes", "made", ""],
                        &page.items.iter().map(row).collect::<Vec<_>>(),
                    )
                })?;
            }
            TokenCommand::Revoke { id } => {
                if !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                    return Err(Failure::Usage(format!("{id:?} is no token id")));
                }
                let removed: Removed = client.delete(&format!("/v1/tokens/{id}")).await?;
                context.screen.result(&removed, || format!("{} opens nothing any more", removed.removed))?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn row(token: &TokenView) -> Vec<String> {
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    vec![
        token.id.clone(),
        token.tenant.to_string(),
        token.name.clone(),
        token.person.to_string(),
        scopes.join(","),
        token.created_at.format("%Y-%m-%d %H:%M").to_string(),
        if token.revoked_at.is_some() { "revoked".to_owned() } else { String::new() },
    ]
}
