//! `mfaas token`: who may do what.

use chrono::{DateTime, Utc};
use mfaas_ident::{CallScope, IdentitySource, PersonName, Role, Scope};
use mfaas_rules::codes;
use mfaas_wire::{
    CallKeyView, CallTokenCreated, CallTokenView, CallerRevoked, CreateCallToken, CreateToken, Page, Removed,
    RotateCallKey, TokenCreated, TokenView,
};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// The longest life of a call token, in seconds; the server says so, too.
const TTL_S_MAX: u32 = 86_400;

/// Access tokens.
#[derive(Debug, clap::Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Make a token for your tenant, or another with --tenant; its secret is shown once.
    ///
    /// With --call it is a call token, which opens functions at nodes and nothing else.
    ///
    /// For example: `mfaas token create alice --role reviewer --person alice`
    Create {
        /// What to call it; with --call, whom the functions see as the caller, you if not given.
        #[arg(value_name = "NAME", required_unless_present = "call")]
        name: Option<String>,
        /// Make a call token for this function, or for several, or `*` for all but those with the access `token`, which have to
        /// be named.
        #[arg(long, value_name = "FUNCTION,…", value_delimiter = ',', conflicts_with_all = ["role", "scopes", "person"])]
        call: Vec<String>,
        /// How long a call token is good for, at most 24h.
        #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_time, requires = "call")]
        ttl: u32,
        /// Calls a second of each function on each node, where a node itself allows more.
        #[arg(long, value_name = "N", requires = "call", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
        /// Calls of each function on their way on each node, where a node itself allows more.
        #[arg(long, value_name = "N", requires = "call", value_parser = clap::value_parser!(u32).range(1..))]
        concurrency: Option<u32>,
        /// What it may do: viewer, deployer, reviewer, operator, admin; deployer if not given.
        #[arg(long, value_name = "ROLE", conflicts_with = "scopes")]
        role: Option<Role>,
        /// The same scope by scope: read, deploy, review, operate, admin.
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// The person it is for. Reviewers have to be named, and two tokens of one person are one
        /// vote; without a name a token acts for itself, as `tenant/name`.
        #[arg(long, value_name = "PERSON")]
        person: Option<PersonName>,
    },
    /// Make another key for call tokens; nodes hear of it before it is used, and the one before counts until its last token is over.
    ///
    /// For example: `mfaas token rotate-key`
    RotateKey {
        /// A private key has leaked: no token of the keys before counts any more.
        #[arg(long)]
        leaked: bool,
    },
    /// List the tokens, without their secrets; with --call the call tokens that are not over.
    ///
    /// For example: `mfaas token list`
    List {
        /// Call tokens instead, those that end last first.
        #[arg(long)]
        call: bool,
    },
    /// Withdraw a token at once; with --call a call token, with --caller all call tokens that a caller has.
    ///
    /// Nodes refuse a call token as soon as they have the next serving set.
    ///
    /// For example: `mfaas token revoke --caller alice`
    Revoke {
        /// The public half of the token, as `token list` shows it.
        #[arg(value_name = "ID", required_unless_present = "caller")]
        id: Option<String>,
        /// It is a call token, as `token list --call` shows it.
        #[arg(long)]
        call: bool,
        /// Every call token of this caller that was issued until now.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["id", "call"])]
        caller: Option<PersonName>,
    },
}

impl Token {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        match self.command {
            TokenCommand::Create { name, call, ttl, rate, concurrency, .. } if !call.is_empty() => {
                let functions = CallScope::parse(&call).map_err(|e| Failure::Usage(e.to_string()))?;
                let caller = name.as_deref().map(PersonName::parse).transpose();
                let caller = caller.map_err(|e| Failure::Usage(e.to_string()))?;
                let wanted = CreateCallToken { functions, caller, ttl_s: Some(ttl), rate, concurrency };
                create_call_token(context, &client, &wanted).await?;
            }
            TokenCommand::Create { name, role, scopes, person, .. } => {
                // clap demands it unless --call is there.
                let name = name.unwrap_or_default();
                let role = role.or(scopes.is_empty().then_some(Role::Deployer));
                demand_person(role.map_or(scopes.as_slice(), |role| role.scopes()), person.as_ref())?;
                // `--tenant` names the tenant that the new token opens.
                let tenant = context.global.tenant.clone();
                create_token(context, &client, &CreateToken { name, role, scopes, tenant, person }).await?;
            }
            TokenCommand::RotateKey { leaked } => rotate_key(context, &client, leaked).await?,
            TokenCommand::List { call: true } => list_call_tokens(context, &client).await?,
            TokenCommand::List { call: false } => list_tokens(context, &client).await?,
            TokenCommand::Revoke { caller: Some(caller), .. } => {
                revoke_tokens_of_caller(context, &client, &caller).await?;
            }
            // clap demands an id unless --caller is there.
            TokenCommand::Revoke { id, call, .. } => {
                revoke_token(context, &client, &id.unwrap_or_default(), call).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn create_call_token(
    context: &Context,
    client: &Client,
    wanted: &CreateCallToken,
) -> Result<(), Failure> {
    let created: CallTokenCreated = client.post("/v1/call-tokens", wanted).await?;
    context.screen.result(&created, || created.token.clone())?;
    context.screen.note(&told(&created));
    Ok(())
}

async fn create_token(context: &Context, client: &Client, wanted: &CreateToken) -> Result<(), Failure> {
    let created: TokenCreated = client.post("/v1/tokens", wanted).await?;
    context.screen.result(&created, || created.secret.clone())?;
    context.screen.note("this is the only time that the secret is shown");
    Ok(())
}

async fn rotate_key(context: &Context, client: &Client, leaked: bool) -> Result<(), Failure> {
    let made: CallKeyView = client.post("/v1/call-keys", &RotateCallKey { leaked }).await?;
    context.screen.result(&made, || made.key_id.clone())?;
    if leaked {
        context
            .screen
            .note("every call token from before is refused as soon as nodes have the next serving set");
    }
    Ok(())
}

async fn list_call_tokens(context: &Context, client: &Client) -> Result<(), Failure> {
    let page: Page<CallTokenView> = client.get("/v1/call-tokens").await?;
    context.screen.result(&page, || {
        let rows: Vec<_> = page.items.iter().map(call_row).collect();
        table(&["id", "caller", "functions", "issued", "ends", "by", ""], &rows)
    })
}

async fn list_tokens(context: &Context, client: &Client) -> Result<(), Failure> {
    let page: Page<TokenView> = client.get("/v1/tokens").await?;
    context.screen.result(&page, || {
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(&["id", "tenant", "name", "person", "role", "made", ""], &rows)
    })
}

async fn revoke_tokens_of_caller(
    context: &Context,
    client: &Client,
    caller: &PersonName,
) -> Result<(), Failure> {
    // Of what a name may hold, a plus alone means something else in a query.
    let path = format!("/v1/call-tokens?caller={}", caller.as_str().replace('+', "%2B"));
    let revoked: CallerRevoked = client.delete(&path).await?;
    context.screen.result(&revoked, || told_of_caller(&revoked))
}

async fn revoke_token(context: &Context, client: &Client, id: &str, call: bool) -> Result<(), Failure> {
    if !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(Failure::Usage(format!("{id:?} is no token id")));
    }
    if call {
        let revoked: CallTokenView = client.delete(&format!("/v1/call-tokens/{id}")).await?;
        return context.screen.result(&revoked, || told_of_token(&revoked));
    }
    let removed: Removed = client.delete(&format!("/v1/tokens/{id}")).await?;
    context.screen.result(&removed, || format!("{} opens nothing any more", removed.removed))
}

/// What a user who passes a call token on has to know.
fn told(created: &CallTokenCreated) -> String {
    format!(
        "opens {} of {} for {}/{} until {} UTC; send it as `Authorization: Bearer …`; its id is {}",
        created.functions,
        created.tenant,
        created.tenant,
        created.caller,
        second(created.expires_at),
        created.id
    )
}

fn told_of_token(revoked: &CallTokenView) -> String {
    format!("call token {} of {} opens nothing as soon as nodes hear of it", revoked.id, revoked.caller)
}

fn told_of_caller(revoked: &CallerRevoked) -> String {
    format!(
        "no call token of {}/{} that was issued until {} UTC opens anything as soon as nodes hear of it",
        revoked.tenant,
        revoked.caller,
        second(revoked.issued_until)
    )
}

fn second(time: DateTime<Utc>) -> impl std::fmt::Display {
    time.format("%Y-%m-%d %H:%M:%S")
}

/// `90s`, `15m` or `24h`, in seconds.
fn parse_time(text: &str) -> Result<u32, String> {
    let rule = || "write it as 90s, 15m or 24h, and at most 24h".to_owned();
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(rule)?;
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(rule()),
    };
    let time_s = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_s)).ok_or_else(rule)?;
    if (1..=TTL_S_MAX).contains(&time_s) { Ok(time_s) } else { Err(rule()) }
}

/// Said before the server is asked, with the flag that is missing.
fn demand_person(scopes: &[Scope], person: Option<&PersonName>) -> Result<(), Failure> {
    match scopes.iter().find(|scope| scope.may_vote()) {
        Some(scope) if person.is_none() => {
            let (code, hint) = (codes::MF0913.id(), "say whose it is with --person NAME");
            Err(Failure::Usage(format!("{code}: the scope `{scope}` allows voting in reviews: {hint}")))
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
        match token.identity_source {
            IdentitySource::Nobody => format!("{} (itself)", token.person),
            IdentitySource::Admin => token.person.to_string(),
            IdentitySource::Provider => format!("{} (signed in)", token.person),
        },
        token.role.map_or_else(scopes, |role| role.to_string()),
        token.created_at.format("%Y-%m-%d %H:%M").to_string(),
        if token.revoked_at.is_some() { "revoked".to_owned() } else { String::new() },
    ]
}

fn call_row(token: &CallTokenView) -> Vec<String> {
    vec![
        token.id.clone(),
        token.caller.to_string(),
        token.functions.to_string(),
        second(token.issued_at).to_string(),
        second(token.expires_at).to_string(),
        token.issued_by.clone(),
        if token.revoked_at.is_some() { "revoked".to_owned() } else { String::new() },
    ]
}

#[cfg(test)]
mod tests;
