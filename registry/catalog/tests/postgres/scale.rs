//! A catalog with as many rows as years leave behind: no statement reads a growing table from end to end.
//!
//! What programs do by themselves and for pages is done, and the database's own notes about it are read, statements of
//! triggers and foreign keys among them. What that does not reach is taken from the program's source and planned.
//! `MFAAS_SCALE=20` fills in a million versions instead of fifty thousand; `MFAAS_PLANS=1` prints the table of
//! docs/scale.md.

mod drive;
mod plans;
mod sources;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use crate::fixture::World;
use mfaas_test_postgres::{Cluster, OWNER};
use plans::Plan;
use sources::Statement;

/// Functions with 100 versions each.
const FUNCTIONS: u32 = 500;

#[tokio::test]
async fn no_statement_reads_a_growing_table_from_end_to_end() {
    let world = World::new().await;
    fill(&world).await;
    let mut seen = Vec::new();
    for (turn, mode) in ["force_custom_plan", "force_generic_plan"].into_iter().enumerate() {
        observe(&world, mode).await;
        let began = log(&world).await.len();
        let connected = world.again().await;
        drive::everything(&connected, &turn.to_string()).await;
        seen.extend(plans::in_log(&String::from_utf8_lossy(&log(&world).await[began..])));
    }
    assert!(seen.len() > 300, "auto_explain told of {} statements", seen.len());
    let statements = sources::statements(&["src", "../signer/src/ledger.rs", "../signer/src/ledger"]);
    assert!(statements.len() > 150, "{} statements were found in the source", statements.len());
    let planned = plan_unseen(&world, &statements, &seen).await;
    if std::env::var_os("MFAAS_PLANS").is_some() {
        print(&statements, &seen, &planned);
    }
    seen.extend(planned.into_iter().map(|(_, plan)| plan));
    let mut faults: Vec<String> = seen.iter().flat_map(Plan::faults).collect();
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert_eq!(plans::unneeded(&seen), [""; 0], "rows of the lists that nothing needs");
}

async fn fill(world: &World) {
    let scale: u32 = std::env::var("MFAAS_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let sql = include_str!("scale/fill.sql").replace(":functions", &(FUNCTIONS * scale).to_string());
    let mut connection = PgConnection::connect(&Cluster::get().url(&world.database, OWNER)).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
}

/// Every later connection writes down what it runs, and how.
async fn observe(world: &World, mode: &str) {
    let database = &world.database;
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_format", "json"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_timing", "off"),
        ("auto_explain.log_nested_statements", "on"),
        ("jit", "off"),
        ("plan_cache_mode", mode),
    ];
    let mut owner = PgConnection::connect(&Cluster::get().url(database, OWNER)).await.unwrap();
    sqlx::raw_sql("LOAD 'auto_explain'").execute(&mut owner).await.unwrap();
    for (name, value) in settings {
        let set = format!("ALTER DATABASE {database} SET {name} = '{value}'");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut owner).await.unwrap();
    }
}

/// What the cluster has written into its log so far.
async fn log(world: &World) -> Vec<u8> {
    let directory = "SELECT current_setting('data_directory')";
    let directory: String = sqlx::query_scalar(directory).fetch_one(&world.sql).await.unwrap();
    std::fs::read(Path::new(&directory).with_file_name("server.log")).unwrap()
}

/// Plans, with whatever parameters, the statements that were not seen.
async fn plan_unseen(world: &World, statements: &[Statement], seen: &[Plan]) -> Vec<(String, Plan)> {
    let mut connection = PgConnection::connect(&Cluster::get().url(&world.database, OWNER)).await.unwrap();
    let quiet = "SET auto_explain.log_min_duration = -1; SET plan_cache_mode = force_generic_plan";
    sqlx::raw_sql(quiet).execute(&mut connection).await.unwrap();
    let mut planned = Vec::new();
    for statement in statements.iter().filter(|statement| !was_seen(statement, seen)) {
        let plan = plan(&mut connection, statement).await;
        planned.push((statement.file.clone(), plan));
    }
    planned
}

fn was_seen(statement: &Statement, seen: &[Plan]) -> bool {
    seen.iter().any(|plan| plan.text == statement.flat)
}

async fn plan(connection: &mut PgConnection, statement: &Statement) -> Plan {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}: {}", statement.file, statement.text);
    let prepare = format!("DEALLOCATE ALL; PREPARE asked AS {}", statement.text);
    let prepared = sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await;
    prepared.unwrap_or_else(|error| panic!("{}", told(&error)));
    let parameters = "SELECT coalesce(cardinality(parameter_types), 0) AS number FROM pg_prepared_statements
                      WHERE name = 'asked'";
    let row = sqlx::raw_sql(parameters).fetch_one(&mut *connection).await.unwrap();
    let number = row.try_get_unchecked::<i32, _>("number").unwrap();
    let nulls = vec!["NULL"; usize::try_from(number).unwrap()].join(", ");
    let arguments = if number == 0 { String::new() } else { format!("({nulls})") };
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE asked{arguments}");
    let row = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *connection).await;
    let row = row.unwrap_or_else(|error| panic!("{}", told(&error)));
    let json: Value = serde_json::from_str(&row.try_get_unchecked::<String, _>(0).unwrap()).unwrap();
    Plan::new(&statement.text, &json[0]["Plan"])
}

/// The most rows that each way into a table has read.
type Ways = BTreeMap<String, Option<f64>>;

/// One line a statement that reads a table: where it stands, its beginning, its ways, the most rows that it read, what it
/// costs by the planner.
fn print(statements: &[Statement], seen: &[Plan], planned: &[(String, Plan)]) {
    let mut rows: BTreeMap<(&str, &str), (f64, Ways)> = BTreeMap::new();
    let of = |plan: &Plan| statements.iter().find(|statement| statement.flat == plan.text);
    let seen = seen.iter().map(|plan| (of(plan).map_or("triggers and keys", |of| of.file.as_str()), plan));
    let planned = planned.iter().map(|(file, plan)| (file.as_str(), plan));
    for (file, plan) in seen.chain(planned).filter(|(_, plan)| !plan.accesses.is_empty()) {
        let row = rows.entry((file, plan.text.as_str())).or_default();
        row.0 = row.0.max(plan.cost);
        for access in &plan.accesses {
            let most = row.1.entry(format!("{} of `{}`", access.path, access.table)).or_default();
            *most = access.rows.into_iter().chain(*most).reduce(f64::max);
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "| file | statement | ways into tables (rows read) | cost |\n| --- | --- | --- | ---: |")
        .unwrap();
    for ((file, text), (cost, ways)) in rows {
        let begin: String = text.chars().take(100).collect();
        let told = |(way, most): (String, Option<f64>)| {
            most.map_or_else(|| format!("{way} (planned)"), |rows| format!("{way} ({rows:.0})"))
        };
        let ways: Vec<String> = ways.into_iter().map(told).collect();
        let begin = begin.replace('|', "\\|");
        writeln!(out, "| {file} | `{begin}` | {} | {cost:.0} |", ways.join("; ")).unwrap();
    }
}
