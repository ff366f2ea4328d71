//! The page of a function: who may call it, a form that does, whom it calls, its versions, what came of its uploads, its log.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::Utc;
use mfaas_catalog::{Alias, CatalogError};
use mfaas_ident::{Access, AliasName, FunctionName, Scope, TenantName};

use super::call::{self, Answered, Asked, METHODS};
use super::call_graph::{self, CallGraph};
use super::form::SignedForm;
use super::frame::{Frame, html, show as show_refusal};
use super::nodes::BanRow;
use super::rows::{AliasRow, DeploymentRow, LogRow, ScheduleRow, TriggerRow, VersionRow};
use super::statement::admission;
use crate::caller::Caller;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::{self, schedules::schedule_view, triggers::trigger_views_if_known};
use crate::state::App;

#[derive(Template)]
#[template(path = "function.html")]
struct FunctionPage {
    frame: Frame,
    name: FunctionName,
    tenant: String,
    bans: Vec<BanRow>,
    aliases: Vec<AliasRow>,
    versions: Vec<VersionRow>,
    deployments: Vec<DeploymentRow>,
    site_calls: SiteCalls,
    log: Vec<LogRow>,
    /// `None` if no version is live.
    callers: Option<Callers>,
    /// `None` for those who may issue no call token.
    call: Option<CallForm>,
    call_graph: CallGraph,
}

/// When the site calls it by itself.
struct SiteCalls {
    schedules: Vec<ScheduleRow>,
    triggers: Vec<TriggerRow>,
}

/// The form that calls the function, and what came of it.
#[derive(Default)]
struct CallForm {
    asked: Asked,
    answered: Option<Answered>,
    problem: Option<String>,
}

/// One function. A name with deployments and no version yet has a page too: it shows why.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path(name): Path<FunctionName>,
) -> Result<Response, Refusal> {
    let call = caller.token.holds(Scope::Deploy).then(CallForm::default);
    render(&app, &caller, frame, name, call).await
}

/// Calls the function. What does not come off is said on the page, beside what was typed.
pub(super) async fn call(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path(name): Path<FunctionName>,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let asked = Asked::of(&form)?;
    let sent = call::send(&app, &caller, &name, &asked).await;
    let (answered, refusal) = match sent {
        Ok(answered) => (Some(answered), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let problem = refusal.as_ref().map(|refusal| refusal.problem().detail.clone());
    let page = render(&app, &caller, frame, name, Some(CallForm { asked, answered, problem })).await?;
    Ok(match refusal {
        Some(refusal) => show_refusal(page, refusal),
        None => page,
    })
}

async fn render(
    app: &App,
    caller: &Caller,
    frame: Frame,
    name: FunctionName,
    call: Option<CallForm>,
) -> Result<Response, Refusal> {
    let (tenant, catalog) = (&caller.tenant, &app.catalog);
    let deployments = catalog.deployments(tenant, Some(&name), None, limits::CONSOLE_ROWS_MAX).await?;
    if deployments.is_empty() {
        catalog.function(tenant, &name).await?;
    }
    let aliases = catalog.aliases(tenant, &name).await?;
    let versions = catalog.versions(tenant, &name, None, limits::CONSOLE_ROWS_MAX).await?;
    let log = catalog.logs_after(tenant, &name, 0, limits::CONSOLE_LOG_LINES_MAX).await?;
    let bans = catalog.bans(Some(tenant), Some(&name), limits::CONSOLE_ROWS_MAX).await?;
    let page = FunctionPage {
        call,
        call_graph: call_graph::shown(app, tenant, &name).await?,
        site_calls: site_calls(app, tenant, &name).await?,
        callers: callers(app, tenant, &name, &aliases).await?,
        frame: frame.at("functions"),
        bans: bans.into_iter().map(|row| responses::ban(row).into()).collect(),
        tenant: tenant.to_string(),
        versions: versions.into_iter().map(|row| responses::version(row, &aliases).into()).collect(),
        aliases: aliases.into_iter().map(|row| responses::alias(row).into()).collect(),
        deployments: deployments.into_iter().map(|row| responses::deployment(row, "").into()).collect(),
        log: log.into_iter().map(|row| responses::log_line(row).into()).collect(),
        name,
    };
    html(&page, &page.frame.nonce)
}

async fn site_calls(app: &App, tenant: &TenantName, name: &FunctionName) -> Result<SiteCalls, Refusal> {
    let schedules = match app.catalog.schedules(tenant, name).await {
        // It was deleted, or nothing of it was admitted yet.
        Err(CatalogError::NotFound { .. }) => Vec::new(),
        found => found?,
    };
    let triggers = match app.catalog.triggers(tenant, name).await {
        Err(CatalogError::NotFound { .. }) => Vec::new(),
        found => trigger_views_if_known(app, found?).await,
    };
    let now = Utc::now();
    Ok(SiteCalls {
        schedules: schedules.into_iter().map(|row| schedule_view(name, row, now).into()).collect(),
        triggers: triggers.into_iter().map(Into::into).collect(),
    })
}

/// Who may call the version that is live.
struct Callers {
    version: String,
    /// What the signed statement says; `None` if it cannot be read as one about this version.
    access: Option<Access>,
}

impl Callers {
    /// In a sentence.
    fn meaning(&self) -> &'static str {
        match self.access {
            Some(Access::Public) => "Anybody who reaches a node may call it, without a token.",
            Some(Access::Tenant) => {
                "Callers with a call token of this tenant that names the function, or all of them (*)."
            }
            Some(Access::Token) => {
                "Callers with a call token of this tenant that names the function itself; one for all (*) is not enough."
            }
            None => "The signed statement of the live version cannot be read: nodes refuse the version.",
        }
    }
}

async fn callers(
    app: &App,
    tenant: &TenantName,
    name: &FunctionName,
    aliases: &[Alias],
) -> Result<Option<Callers>, Refusal> {
    let live = aliases.iter().find(|alias| alias.alias == AliasName::live());
    let Some(live) = live else { return Ok(None) };
    let row = &app.catalog.version(tenant, name, live.version).await?;
    let access = admission(app, row).await?.map(|said| said.declares().access());
    Ok(Some(Callers { version: row.version.to_string(), access }))
}
