//! `mfaas crate`: which crates a function may use, who asked for which, and what this site has decided.

mod cargo_config;
mod import;

use mfaas_ident::CrateName;
use mfaas_wire::{
    CrateView, Page, RequestCrate, RequestView, RevocationSeverity, RevocationView, RevokeCrate,
};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// The crates that functions may use as dependencies, and requests for more.
#[derive(Debug, clap::Args)]
pub(crate) struct Crates {
    #[command(subcommand)]
    command: CrateCommand,
}

impl Crates {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        self.command.run(context).await
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum CrateCommand {
    /// List the crates that were decided about: allowed, denied or revoked, and by whom.
    ///
    /// For example: `mfaas crate list`
    List,
    /// Show what was decided about each version of a crate, and why.
    ///
    /// For example: `mfaas crate show regex`
    Show {
        /// The crate.
        #[arg(value_name = "CRATE")]
        name: String,
    },
    /// Ask for a crate that is not allowed yet.
    ///
    /// The site downloads and examines it with everything that it depends on, and puts what needs a decision before
    /// its reviewers. A deployment that needs a crate asks by itself.
    ///
    /// For example: `mfaas crate request regex@1.11 --features std,unicode`
    Request(Request),
    /// List the requests that are not answered, or show one with the crates that it comes down to.
    ///
    /// For example: `mfaas crate requests 12`
    Requests {
        /// The request's number.
        #[arg(value_name = "REQUEST")]
        id: Option<i64>,
    },
    /// Revoke an allowed version, and show the functions that are affected.
    ///
    /// New builds with it are refused. Functions that were built with it go on, unless --unload takes them off the
    /// nodes. Look first with --dry-run.
    ///
    /// For example: `mfaas crate revoke regex@1.11.1 --reason "unsound on hostile input" --dry-run`
    Revoke(Revoke),
    /// Import security advisories (RustSec), and revoke every allowed version that one of them matches.
    ///
    /// For example: `mfaas crate advisories advisory-db --dry-run`
    Advisories(import::Advisories),
    /// Import other organisations' audits (cargo-vet) as hints for reviewers; they allow nothing by themselves.
    ///
    /// For example: `mfaas crate audits mozilla=audits.toml`
    Audits(import::Audits),
    /// Print the decisions of this site, for `crate import` at another one.
    ///
    /// For example: `mfaas crate export`
    Export,
    /// Request every crate that another site has allowed; reviewers of this site decide.
    ///
    /// For example: `mfaas crate import decisions.json`
    Import(import::Import),
    /// Print the settings with which cargo on your machine sees the allowed crates as its registry.
    ///
    /// For example: `mfaas crate cargo-config`
    CargoConfig,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Request {
    /// The crate, with a requirement behind `@` (any version otherwise).
    #[arg(value_name = "CRATE[@REQUIREMENT]")]
    wanted: String,
    /// Features to turn on beside the default ones.
    #[arg(long, value_name = "FEATURE,…", value_delimiter = ',')]
    features: Vec<String>,
    /// Turn the default features off.
    #[arg(long)]
    no_default_features: bool,
    /// Have the reviewers of this site decide, even if mfaas ships the crate as allowed or the rules have admitted it.
    #[arg(long = "override", alias = "takeover")]
    overrides: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The crate and its exact version, `name@version`.
    #[arg(value_name = "CRATE@VERSION")]
    which: String,
    /// Why; deployers who are refused read it.
    #[arg(long)]
    reason: String,
    /// Take what runs with it off the nodes, too; otherwise only new builds are stopped.
    #[arg(long)]
    unload: bool,
    /// Only show what a revocation affects; change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl CrateCommand {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::List => list(context).await,
            Self::Show { name } => show(context, &name).await,
            Self::Request(request) => request.run(context).await,
            Self::Requests { id: None } => requests(context).await,
            Self::Requests { id: Some(id) } => request(context, id).await,
            Self::Revoke(revoke) => revoke.run(context).await,
            Self::Advisories(advisories) => advisories.run(context).await,
            Self::Audits(audits) => audits.run(context).await,
            Self::Export => import::export(context).await,
            Self::Import(import) => import.run(context).await,
            Self::CargoConfig => cargo_config::print(context),
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

async fn show(context: &Context, name: &str) -> Result<Exit, Failure> {
    let name = crate_name(name)?;
    let mut page: Page<CrateView> = context.client()?.get("/v1/crates").await?;
    page.items.retain(|item| item.name == name);
    context.screen.result(&page, || {
        if page.items.is_empty() {
            return format!("{name} was never asked for; `mfaas crate request {name}` asks");
        }
        let row = |item: &CrateView| {
            vec![
                item.version.clone(),
                item.status.as_str().to_owned(),
                item.decided_by.clone().unwrap_or_else(|| "-".to_owned()),
                item.features.join(","),
                item.reason.clone(),
            ]
        };
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(&["version", "status", "decided by", "features", "reason"], &rows)
    })?;
    Ok(Exit::Ok)
}

impl Request {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (name, requirement) = self.wanted.split_once('@').unwrap_or((&self.wanted, "*"));
        let body = RequestCrate {
            name: crate_name(name)?,
            requirement: requirement.to_owned(),
            features: self.features,
            default_features: !self.no_default_features,
            overrides: self.overrides,
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
                (false, _) => format!("dry run: a revocation of {name} {version} would affect:"),
                (true, true) => format!("{name} {version} is revoked; nodes unload:"),
                (true, false) => {
                    format!("{name} {version} is revoked for new builds; built with it and running on:")
                }
            };
            format!("{head}\n{}", affected(&view))
        })?;
        Ok(Exit::Ok)
    }
}

fn affected(view: &RevocationView) -> String {
    if view.affected.is_empty() {
        return "nothing was built with it".to_owned();
    }
    let row = |item: &mfaas_wire::AffectedView| {
        let aliases: Vec<&str> = item.aliases.iter().map(mfaas_ident::AliasName::as_str).collect();
        vec![
            format!("{}/{}", item.tenant, item.function),
            item.version.to_string(),
            if aliases.is_empty() { "-".to_owned() } else { aliases.join(",") },
            item.artifact.short(),
            if item.revoked { "revoked".to_owned() } else { String::new() },
        ]
    };
    let rows: Vec<_> = view.affected.iter().map(row).collect();
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
