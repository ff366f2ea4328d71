//! `mfaas token`: who may do what.

use mfaas_ident::{PersonName, Role, Scope, Voucher};
use mfaas_rules::codes;
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
        /// What it may do: viewer, deployer, reviewer, operator, admin; deployer if not given.
        #[arg(long, value_name = "ROLE", conflicts_with = "scopes")]
        role: Option<Role>,
        /// The same scope by scope: read, deploy, review, operate, admin.
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// The person it is for. Whoever reviews has to be named, and two tokens of one person are one
        /// voice; without a name a token speaks for itself, as `tenant/name`.
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
            TokenCommand::Create { name, role, scopes, person } => {
                let role = role.or(scopes.is_empty().then_some(Role::Deployer));
                demand_person(role.map_or(scopes.as_slice(), |role| role.scopes()), person.as_ref())?;
                // `--tenant` names the tenant that the new token opens.
                let tenant = context.global.tenant.clone();
                let created: TokenCreated =
                    client.post("/v1/tokens", &CreateToken { name, role, scopes, tenant, person }).await?;
                context.screen.result(&created, || created.secret.clone())?;
                context.screen.note("this is the only time that the secret is shown");
            }
            TokenCommand::List => {
                let page: Page<TokenView> = client.get("/v1/tokens").await?;
                context.screen.result(&page, || {
                    table(
                        &["id", "tenant", "name", "person", "role", "made", ""],
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

/// Said before the server is asked, with the flag that is missing.
fn demand_person(scopes: &[Scope], person: Option<&PersonName>) -> Result<(), Failure> {
    match scopes.iter().find(|scope| scope.gives_voice()) {
        Some(scope) if person.is_none() => {
            let (code, hint) = (codes::MF0913.id(), "say whose it is with --person NAME");
            Err(Failure::Usage(format!("{code}: the scope `{scope}` gives a voice in reviews: {hint}")))
        }
        _ => Ok(()),
    }
}

fn row(token: &TokenView) -> Vec<String> {
    // Scopes that make no role are shown one by one.
    let scopes = || token.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",");
    vec![
        token.id.clone(),
        token.tenant.to_string(),
        token.name.clone(),
        match token.vouched_by {
            Voucher::Nobody => format!("{} (itself)", token.person),
            Voucher::Admin => token.person.to_string(),
            Voucher::Provider => format!("{} (signed in)", token.person),
        },
        token.role.map_or_else(scopes, |role| role.to_string()),
        token.created_at.format("%Y-%m-%d %H:%M").to_string(),
        if token.revoked_at.is_some() { "revoked".to_owned() } else { String::new() },
    ]
}
