//! `mfaas allow`: which crates a function may use, who asked for which, and what was decided.

mod cargo_config;
mod delta;
mod import;
mod review;
mod show;

use mfaas_ident::CrateName;
use mfaas_wire::{
    CrateView, Page, RequestCrate, RequestView, RevocationSeverity, RevocationView, RevokeCrate,
};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// The allowlist of dependencies.
#[derive(Debug, clap::Args)]
pub(crate) struct Allow {
    #[command(subcommand)]
    command: AllowCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AllowCommand {
    /// List the crates with what was decided about them, and by whom.
    List,
    /// Ask for a crate: `regex`, `regex@1.11`, `regex@=1.11.1`.
    Request(Request),
    /// List the requests that are not answered, or show one with what it comes down to.
    Requests {
        /// The request.
        #[arg(value_name = "REQUEST")]
        id: Option<i64>,
    },
    /// List the open reviews.
    Queue,
    /// Show a crate with its reviews, or a review by its number.
    Show(show::Show),
    /// Say yes to a review. Crates with unsafe code take two people; whoever asked has no voice.
    Approve(review::Approve),
    /// Say no to a review; what waits for it ends with your words.
    Deny(review::Deny),
    /// Say what is at a spot of a review.
    Mark(review::Mark),
    /// Take an approval back, and see what that concerns.
    Revoke(Revoke),
    /// Import advisories; allowed versions that one of them refuses are taken back.
    Advisories(import::Advisories),
    /// Import other people's audits (cargo-vet) as hints for reviewers.
    Audits(import::Audits),
    /// Print what this site has decided.
    Export,
    /// Ask for everything that another site has decided.
    Import(import::Import),
    /// Print the settings with which cargo on your machine sees the allowlist as its registry.
    CargoConfig,
}

#[derive(Debug, clap::Args)]
struct Request {
    /// The crate, with a requirement behind `@` (any version otherwise).
    #[arg(value_name = "CRATE[@REQUIREMENT]")]
    wanted: String,
    /// Features beside the default ones.
    #[arg(long, value_name = "FEATURE,…", value_delimiter = ',')]
    features: Vec<String>,
    /// Without the default features.
    #[arg(long)]
    no_default_features: bool,
    /// Let people of this site decide even about what ships with mfaas.
    #[arg(long)]
    takeover: bool,
}

#[derive(Debug, clap::Args)]
struct Revoke {
    /// The crate and its exact version, `name@version`.
    #[arg(value_name = "CRATE@VERSION")]
    which: String,
    /// Why; whoever is refused reads it.
    #[arg(long)]
    reason: String,
    /// Take what runs with it off the nodes, too; otherwise only new builds are stopped.
    #[arg(long)]
    unload: bool,
    /// Only show what it concerns.
    #[arg(long)]
    dry_run: bool,
}

impl Allow {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.command {
            AllowCommand::List => list(context).await,
            AllowCommand::Request(request) => request.run(context).await,
            AllowCommand::Requests { id: None } => requests(context).await,
            AllowCommand::Requests { id: Some(id) } => request(context, id).await,
            AllowCommand::Advisories(advisories) => advisories.run(context).await,
            AllowCommand::Audits(audits) => audits.run(context).await,
            AllowCommand::Export => import::export(context).await,
            AllowCommand::Import(import) => import.run(context).await,
            AllowCommand::Queue => review::queue(context).await,
            AllowCommand::Show(show) => show.run(context).await,
            AllowCommand::Approve(approve) => approve.run(context).await,
            AllowCommand::Deny(deny) => deny.run(context).await,
            AllowCommand::Mark(mark) => mark.run(context).await,
            AllowCommand::Revoke(revoke) => revoke.run(context).await,
            AllowCommand::CargoConfig => cargo_config::print(context),
        }
    }
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let page: Page<CrateView> = context.client()?.get("/v1/crates").await?;
    context.screen.result(&page, || {
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(&["crate", "version", "status", "decided by", "features"], &rows)
    })?;
    if page.items.iter().any(|item| !item.reviewed && item.decided_by.as_deref() == Some("seed")) {
        context.screen.note("seed = shipped with mfaas, not yet reviewed for hostile callers by this site");
    }
    Ok(Exit::Ok)
}

fn row(item: &CrateView) -> Vec<String> {
    vec![
        item.name.to_string(),
        item.version.clone(),
        item.status.as_str().to_owned(),
        item.decided_by.clone().unwrap_or_else(|| "-".to_owned()),
        item.features.join(","),
    ]
}

impl Request {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (name, requirement) = self.wanted.split_once('@').unwrap_or((&self.wanted, "*"));
        let body = RequestCrate {
            name: crate_name(name)?,
            requirement: requirement.to_owned(),
            features: self.features,
            default_features: !self.no_default_features,
            takeover: self.takeover,
        };
        let request: RequestView = context.client()?.post("/v1/requests", &body).await?;
        context.screen.result(&request, || {
            format!(
                "request {} for {} {} is {}",
                request.id, request.name, request.requirement, request.status
            )
        })?;
        Ok(Exit::Ok)
    }
}

async fn requests(context: &Context) -> Result<Exit, Failure> {
    let page: Page<RequestView> = context.client()?.get("/v1/requests").await?;
    context.screen.result(&page, || {
        if page.items.is_empty() {
            return "nobody waits for a crate".to_owned();
        }
        let row = |item: &RequestView| {
            vec![
                item.id.to_string(),
                item.name.to_string(),
                item.requirement.clone(),
                item.status.clone(),
                item.requested_by.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
                item.created_at.format("%Y-%m-%d %H:%M").to_string(),
            ]
        };
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(&["request", "crate", "wanted", "status", "by", "since"], &rows)
    })?;
    Ok(Exit::Ok)
}

async fn request(context: &Context, id: i64) -> Result<Exit, Failure> {
    let view: RequestView = context.client()?.get(&format!("/v1/requests/{id}")).await?;
    context.screen.result(&view, || {
        let mut lines =
            vec![format!("request {} for {} {} is {}", view.id, view.name, view.requirement, view.status)];
        if !view.detail.is_empty() {
            lines.push(format!("  {}", view.detail));
        }
        lines.extend(view.members.iter().map(|member| {
            let review =
                member.review.map_or_else(|| "allowed".to_owned(), |review| format!("review {review}"));
            format!("  {:<12} {} {}", review, member.path.join(" -> "), member.version)
        }));
        lines.join("\n")
    })?;
    Ok(Exit::Ok)
}

impl Revoke {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (name, version) = exact(&self.which)?;
        let severity = if self.unload { RevocationSeverity::Unload } else { RevocationSeverity::Block };
        let body = RevokeCrate { severity, reason: self.reason, dry_run: self.dry_run };
        let path = format!("/v1/crates/{name}/{version}/revocation");
        let view: RevocationView = context.client()?.post(&path, &body).await?;
        context.screen.result(&view, || {
            let head = match (view.done, self.unload) {
                (false, _) => format!("{name} {version} is left as it is; taking it back would concern:"),
                (true, true) => format!("{name} {version} is revoked; nodes unload:"),
                (true, false) => {
                    format!("{name} {version} is revoked for new builds; built with it and running on:")
                }
            };
            format!("{head}\n{}", concerned(&view))
        })?;
        Ok(Exit::Ok)
    }
}

fn concerned(view: &RevocationView) -> String {
    if view.concerned.is_empty() {
        return "nothing was built with it".to_owned();
    }
    let row = |item: &mfaas_wire::ConcernedView| {
        let aliases: Vec<&str> = item.aliases.iter().map(mfaas_ident::AliasName::as_str).collect();
        vec![
            format!("{}/{}", item.tenant, item.function),
            item.version.to_string(),
            if aliases.is_empty() { "-".to_owned() } else { aliases.join(",") },
            item.artifact.short(),
            if item.revoked { "revoked".to_owned() } else { String::new() },
        ]
    };
    let rows: Vec<_> = view.concerned.iter().map(row).collect();
    table(&["function", "version", "aliases", "artifact", ""], &rows)
}

fn crate_name(text: &str) -> Result<CrateName, Failure> {
    CrateName::parse(text).map_err(|error| Failure::Usage(error.to_string()))
}

/// `name@version`, both checked: they become a path of the API.
fn exact(text: &str) -> Result<(CrateName, semver::Version), Failure> {
    let (name, version) =
        text.split_once('@').ok_or_else(|| Failure::Usage(format!("{text:?} is not `name@version`")))?;
    let version =
        semver::Version::parse(version).map_err(|error| Failure::Usage(format!("{version:?}: {error}")))?;
    Ok((crate_name(name)?, version))
}

#[cfg(test)]
mod tests;
