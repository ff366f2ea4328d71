//! The command line: `serve`, and what an operator does once.

mod keeping;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mfaas_catalog::{Actor, AllowlistSeed, Catalog, CatalogError, NewToken, RolePasswords};
use mfaas_ident::{BuildVersion, PersonName, Role, Scope, TenantName};
use mfaas_startup::{Shutdown, Variables};

use crate::config::ServeConfig;
use crate::token::{Secret, check_person};
use crate::{limits, responses};

/// The control plane of mfaas: REST, console, node protocol.
#[derive(Debug, Parser)]
#[command(name = "mfaas-server", version = BuildVersion::this().as_str())]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until SIGTERM (the default).
    Serve,
    /// Bring the schema up to date; MFAAS_DATABASE_URL is the owner's. Repeatable.
    Migrate,
    /// Tokens of people and programs.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Which crates functions may use.
    #[command(subcommand)]
    Allowlist(AllowlistCommand),
    /// Save database and blobs of the site into a directory, while it runs.
    Backup(keeping::Backup),
    /// Put a backup back, into a database without a site.
    Restore(keeping::Restore),
    /// The audit log.
    #[command(subcommand)]
    Audit(keeping::AuditCommand),
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token, and its tenant if that is new; prints the secret.
    Create {
        /// What it opens.
        #[arg(long)]
        tenant: TenantName,
        /// What it may do: viewer, deployer, reviewer, operator, admin.
        #[arg(long, required_unless_present = "scopes", conflicts_with = "scopes")]
        role: Option<Role>,
        /// The same scope by scope: read, deploy, review, operate, admin.
        #[arg(long, value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// What to call it.
        #[arg(long)]
        name: String,
        /// The person it is for; needed by who reviews, and two tokens of one person are one vote.
        #[arg(long)]
        person: Option<PersonName>,
    },
}

#[derive(Debug, Subcommand)]
enum AllowlistCommand {
    /// Take over the file that `mfaas-builder deps build` wrote. Decisions of reviewers stay.
    Import {
        /// The file.
        file: PathBuf,
    },
}

impl Arguments {
    /// Gives up writing elsewhere than the command has to, for this thread and those that it makes.
    pub fn confine(&self) -> anyhow::Result<()> {
        match &self.command {
            Some(Command::Backup(command)) => command.confine(),
            Some(Command::Restore(command)) => command.confine(),
            Some(Command::Audit(keeping::AuditCommand::Archive(command))) => command.confine(),
            _ => Ok(()),
        }
    }
}

/// Does what was typed.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command.unwrap_or(Command::Serve) {
        Command::Serve => serve().await,
        Command::Migrate => migrate().await,
        Command::Token(TokenCommand::Create { tenant, role, scopes, name, person }) => {
            let scopes = role.map_or(scopes, |role| role.scopes().to_vec());
            create_token(&tenant, &scopes, &name, person.as_ref()).await
        }
        Command::Allowlist(AllowlistCommand::Import { file }) => import_allowlist(&file).await,
        Command::Backup(command) => command.run().await,
        Command::Restore(command) => command.run().await,
        Command::Audit(keeping::AuditCommand::Archive(command)) => command.run().await,
    }
}

async fn serve() -> anyhow::Result<()> {
    let config = ServeConfig::read(&Variables::of_process())?;
    let mut shutdown = Shutdown::listen()?;
    let running = tokio::select! {
        running = crate::start(config) => running?,
        signal = shutdown.requested() => {
            tracing::info!(signal, "stopped before it served");
            return Ok(());
        }
    };
    let signal = shutdown.requested().await;
    tracing::info!(signal, "stopping");
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

async fn migrate() -> anyhow::Result<()> {
    let url = Variables::of_process().required("MFAAS_DATABASE_URL")?;
    mfaas_catalog::migrate(&url, &RolePasswords::default()).await.context("migrate")
}

async fn create_token(
    tenant: &TenantName,
    scopes: &[Scope],
    name: &str,
    person: Option<&PersonName>,
) -> anyhow::Result<()> {
    check_person(scopes, person).map_err(|refusal| {
        anyhow::anyhow!("{refusal}\n{}", refusal.problem().hint.replace("mfaas token", "mfaas-server token"))
    })?;
    let catalog = connect().await?;
    let secret = Secret::generate()?;
    let new = NewToken { tenant, name, person, scopes, secret_sha256: secret.hash(), expires_at: None };
    let token = catalog.create_token(&operator(), &new).await?;
    print(&secret.reveal_with(token.id))
}

async fn import_allowlist(path: &Path) -> anyhow::Result<()> {
    let seed = read_seed(path).with_context(|| path.display().to_string())?;
    let imported = connect().await?.import_allowlist(&Actor::program(responses::SEED), &seed).await;
    let changed = match imported {
        Err(CatalogError::Denied) => anyhow::bail!(
            "only the owner of the database imports an allowlist, which says what toolchains count: set MFAAS_DATABASE_URL to \
             the owner's"
        ),
        imported => imported?,
    };
    tracing::info!(crates = seed.crates.len(), changed, "the allowlist is imported");
    Ok(())
}

fn read_seed(path: &Path) -> anyhow::Result<AllowlistSeed> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limits::ALLOWLIST_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() as u64 <= limits::ALLOWLIST_FILE_BYTES_MAX, "the file is larger than 16 MiB");
    Ok(serde_json::from_slice(&bytes)?)
}

async fn connect() -> anyhow::Result<Catalog> {
    Ok(Catalog::connect(&Variables::of_process().required("MFAAS_DATABASE_URL")?, 2).await?)
}

/// The operator, who may run this program with the server's database role.
fn operator() -> Actor {
    Actor::program("mfaas-server:operator")
}

fn print(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
