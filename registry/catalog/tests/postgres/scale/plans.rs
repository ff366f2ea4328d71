//! What the database says about how it carries statements out, and what of that does not do at scale.

use std::collections::BTreeSet;

use serde_json::Value;

/// Rows that one statement may read of a table; a page has a hundred.
const READ_MAX: f64 = 5_000.0;
/// Pairs of rows that one join may look at in vain, whatever the statement may read: more are every row beside every other.
const COMPARED_MAX: f64 = 100_000.0;

/// Tables that do not grow with use, and what keeps them small. They may be read from end to end.
const BOUNDED: &[(&str, &str)] = &[
    ("_sqlx_migrations", "one row a migration"),
    ("agreement", "one row"),
    ("audit_head", "one row"),
    ("audit_pending", "empty but within a transaction"),
    ("builders", "one row an instance of the builder; those that are gone are forgotten"),
    ("call_keys", "one key a month for each server"),
    ("certificate_requests", "what waits for the signer, ten minutes at most"),
    ("changed_functions", "what the next serving set says, within a second"),
    ("desired_generation", "one row"),
    ("imported", "two rows"),
    ("key_lists", "one row a rotation of keys"),
    ("node_reports", "one row a machine"),
    ("nodes", "one row a machine"),
    ("policy_state", "one row"),
    ("resources", "10,000 at most, which operators have made"),
    ("series_builds", "a row for each of 480 steps"),
    ("serving_sets", "the signer keeps a hundred"),
    ("sessions", "a thousand at most, none older than a day"),
    ("sign_in_answers", "4,096 at most, none older than an hour"),
    ("site_isolation", "one row"),
    ("toolchains", "one row an accepted toolchain"),
    ("usage_boots", "a hundred starts of each machine"),
];

/// Statements that read much because their answer is that much, or because they are neither repeated nor asked for by
/// a page. By a part of their text, and the table.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("SELECT tenant, name FROM functions", "functions", "a damaged tree of shards is made anew from all"),
    ("unused_since IS NULL AND NOT digest = ANY", "shards", "and leaves none of its shards in use"),
    (
        "scope IN ('', $1) AND toolchain IN ('', $2)",
        "crates",
        "builds, signatures and lines of the index take the whole allowlist",
    ),
    ("scope IN ('', $1) ORDER BY name, version, scope", "crates", "the list of all decisions"),
    ("WITH named AS (SELECT DISTINCT", "aliases", "what is in use now, for a reviewer's list of crates"),
    ("WITH named AS (SELECT DISTINCT", "version_crates", "the same"),
    (
        "SELECT DISTINCT name, version FROM crates",
        "crates",
        "an import of advisories looks at every allowed version",
    ),
    (
        "UPDATE crates c SET status = 'revoked'",
        "crates",
        "a cache that cannot be built takes back what it was for",
    ),
    (
        "FROM crates WHERE status = 'allowed' AND decided_by <> 'seed'",
        "crates",
        "a cache holds all that is allowed",
    ),
    (
        "WITH replaced AS",
        "dependency_caches",
        "one short row for each time that what the site allows changed, read once for a signature",
    ),
    (
        "FROM crate_archives a WHERE NOT EXISTS",
        "crate_archives",
        "asked when the acquirer begins, and after each archive",
    ),
    ("FROM crate_archives a WHERE NOT EXISTS", "index_entries", "the same"),
    (
        "($3::text IS NULL OR tenant = $3)",
        "usage_hours",
        "an operator's sum over all tenants reads what it sums",
    ),
    ("($3::text IS NULL OR tenant = $3)", "usage_kills", "the same"),
    ("FROM series_tenants WHERE step_s = $1 AND at >= $2 AND at < $3 GROUP BY", "series_tenants", "the same"),
    (
        "FROM series_nodes WHERE step_s = $1 AND at >= $2 AND at < $3",
        "series_nodes",
        "an answer about all nodes is what each has said",
    ),
];

/// One way into one table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Access {
    pub(super) table: String,
    /// For example `Index Scan by deployments_built`.
    pub(super) path: String,
    /// Rows read, those left out included; what was expected, where the statement was not run.
    pub(super) rows: Option<f64>,
}

/// A statement with its plan.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) text: String,
    pub(super) cost: f64,
    pub(super) accesses: Vec<Access>,
    /// Of that join of the statement which looked at most pairs in vain.
    pub(super) compared: f64,
}

impl Plan {
    /// Of a statement whose plan is this JSON.
    pub(super) fn new(text: &str, plan: &Value) -> Self {
        let (mut accesses, mut compared) = (Vec::new(), 0.0);
        walk(plan, &mut accesses, &mut compared);
        let cost = number(plan, "Total Cost").unwrap_or(0.0);
        Self { text: super::sources::flat(text), cost, accesses, compared }
    }

    /// What does not do.
    pub(super) fn faults(&self) -> Vec<String> {
        let fault = |access: &&Access| {
            let scan = access.path.starts_with("Seq Scan");
            let much = access.rows.is_some_and(|rows| rows > READ_MAX);
            (scan || much) && !self.is_allowed(&access.table)
        };
        let told = |access: &Access| {
            let rows = access.rows.map_or_else(String::new, |rows| format!(", {rows} rows"));
            format!("{} of {}{rows}: {}", access.path, access.table, self.text)
        };
        let compared = (self.compared > COMPARED_MAX)
            .then(|| format!("a join looked at {} pairs of rows in vain: {}", self.compared, self.text));
        self.accesses.iter().filter(fault).map(told).chain(compared).collect()
    }

    fn is_allowed(&self, table: &str) -> bool {
        // The database's own tables of roles and the like.
        table.starts_with("pg_")
            || BOUNDED.iter().any(|(bounded, _)| *bounded == table)
            || ALLOWED.iter().any(|(part, of, _)| *of == table && self.text.contains(part))
    }
}

/// Rows of the two lists that no statement needs.
pub(super) fn unneeded(plans: &[Plan]) -> Vec<&'static str> {
    let used: BTreeSet<&str> =
        plans.iter().flat_map(|plan| &plan.accesses).map(|access| access.table.as_str()).collect();
    let bounded = BOUNDED.iter().map(|(table, _)| *table).filter(|table| !used.contains(table));
    let is_met = |part: &str, table: &str| {
        plans
            .iter()
            .any(|plan| plan.text.contains(part) && plan.accesses.iter().any(|access| access.table == table))
    };
    let allowed = ALLOWED.iter().filter(|(part, table, _)| !is_met(part, table)).map(|(part, ..)| *part);
    bounded.chain(allowed).collect()
}

fn walk(node: &Value, accesses: &mut Vec<Access>, compared: &mut f64) {
    let loops = number(node, "Actual Loops");
    if let Some((removed, loops)) = number(node, "Rows Removed by Join Filter").zip(loops) {
        *compared = compared.max(removed * loops);
    }
    let text = |key: &str| node.get(key).and_then(Value::as_str);
    if let (Some(table), Some(kind)) = (text("Relation Name"), text("Node Type"))
        && kind != "ModifyTable"
    {
        let path = text("Index Name").map_or_else(|| kind.to_owned(), |index| format!("{kind} by {index}"));
        let read = number(node, "Actual Rows").map(|rows| {
            rows + number(node, "Rows Removed by Filter").unwrap_or(0.0)
                + number(node, "Rows Removed by Index Recheck").unwrap_or(0.0)
        });
        let rows = read.zip(loops).map(|(read, loops)| read * loops);
        accesses.push(Access { table: table.to_owned(), path, rows });
    }
    for child in node.get("Plans").and_then(Value::as_array).into_iter().flatten() {
        walk(child, accesses, compared);
    }
}

fn number(node: &Value, key: &str) -> Option<f64> {
    node.get(key).and_then(Value::as_f64)
}

/// The plans that `auto_explain` has written into a log.
pub(super) fn in_log(log: &str) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if !(line.contains("LOG:  duration: ") && line.ends_with("plan:")) {
            continue;
        }
        let mut json = String::new();
        while let Some(more) = lines.next_if(|line| line.starts_with('\t')) {
            json.push_str(more);
        }
        let told: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        let text = told.get("Query Text").and_then(Value::as_str).unwrap_or_default();
        plans.push(Plan::new(text, &told["Plan"]));
    }
    plans
}
