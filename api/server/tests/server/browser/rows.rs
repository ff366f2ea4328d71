//! Strings in rows that builder, nodes and signer write: what a compiler said, what a function logged, what a
//! node complains about, the allowlist, the audit log.

use mfaas_delivery::{Condition, NODE_PROTOCOL, NodeProblem, Report, SetState};
use mfaas_ident::{Digest, Epoch, sanitise, sanitise_line};
use mfaas_rules::codes;
use mfaas_server::limits::CONSOLE_ROWS_MAX;
use serde_json::{Value, json};

use super::ledger::{line, lines, quoted};
use super::strings::Hostile;
use super::{Cookies, Site};

/// Lines of a log that the page of a function shows.
const LOG_LINES: usize = 200;
/// Complaints of a node that are shown.
const PROBLEMS: usize = 20;
/// Rows of a page of the audit log.
const AUDIT_ROWS: i64 = 100;
/// The longest name of a file in a drawing, in bytes.
const FILE_BYTES: usize = 200;
/// The longest message of a diagnostic, in bytes.
const MESSAGE_BYTES: usize = 1_000;

/// Log lines, as many on a function as its page shows.
pub(super) async fn logs(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    for (part, chunk) in strings.chunks(LOG_LINES).enumerate() {
        let function = format!("logs-{part}");
        let created = site.server.upload(&function, &site.token, vec![1]).await;
        assert_eq!(created.status, 202, "{created:?}");
        let (mut sql, mut texts) = (String::new(), Vec::new());
        for string in chunk {
            site.ledger.tried("log line", string.is_storable());
            if string.is_storable() {
                let text = string.at("log");
                sql.push_str(&format!(
                    "INSERT INTO function_logs (tenant, function, version, node, boot, line, at, level, text)
                     VALUES ('a', '{function}', 1, 'node-1', gen_random_uuid(), 1, now(), 'info', {});",
                    quoted(&text)
                ));
                texts.push(sanitise_line(&text, 4_096));
            }
        }
        site.server.db.script(&sql);
        site.ledger.page(&format!("/functions/{function}"), &cookies.admin, 200, &texts);
        if part == 0 {
            let created = created.json();
            let id = created["deployment"]["id"].as_str().unwrap();
            crate::support::admitted_version(&site.server.db, "a", &function, id, &"a".repeat(64));
            // Each kind of box and of arrow is in its call graph.
            site.server.db.script(&format!(
                "INSERT INTO version_calls (tenant, function, version, name, callee)
                 SELECT 'a', '{function}', 1, 'c' || n, callee
                 FROM unnest(ARRAY['{function}', 'logs-1', 'gone', 'shop/rank']) WITH ORDINALITY AS c (callee, n)"
            ));
            let compared = format!("/functions/{function}/comparison?from=1&to=1");
            site.ledger.page(&compared, &cookies.admin, 200, &[]);
            site.ledger.page(&format!("/functions/{function}/charts"), &cookies.admin, 200, &[]);
        }
    }
}

/// The allowlist and the history of a crate: reason, who decided, features.
pub(super) fn decisions(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    let (mut rows, mut texts) = (Vec::new(), Vec::new());
    // The list is ordered by the text of the version.
    let mut strings: Vec<&Hostile> = strings.iter().collect();
    strings.sort_by_key(|string| string.number.to_string());
    for string in strings {
        for place in ["allowlist: reason", "allowlist: who decided", "allowlist: feature"] {
            site.ledger.tried(place, string.is_storable());
        }
        if !string.is_storable() {
            continue;
        }
        let (reason, who, feature) = (string.at("reason"), string.at("who"), string.at("feature"));
        rows.push(format!(
            "('decided', '1.0.{}', repeat('0', 64), ARRAY[{}], true, 'denied', {}, {})",
            string.number,
            quoted(&feature),
            quoted(&who),
            quoted(&reason)
        ));
        texts.push([lines(&reason), line(&who), line(&feature)]);
    }
    site.server.db.script(&format!(
        "INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason) VALUES {};",
        rows.join(", ")
    ));
    for (page, shown) in (1..).zip(texts.chunks(CONSOLE_ROWS_MAX as usize)) {
        let path = format!("/crates?only=denied&page={page}");
        site.ledger.page(&path, &cookies.reviewer, 200, &shown.concat());
    }
    site.ledger.page("/crates/decided", &cookies.reviewer, 200, &texts.concat());
}

/// What nodes complain about.
pub(super) fn complaints(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    let (mut sql, mut texts) = (String::new(), Vec::new());
    let (kept, refused): (Vec<_>, Vec<_>) = strings.iter().partition(|string| string.is_storable());
    refused.iter().for_each(|_| site.ledger.refused("complaint of a node"));
    for (part, chunk) in kept.chunks(PROBLEMS).enumerate() {
        let message = |string: &&Hostile| string.at("node");
        chunk.iter().for_each(|_| site.ledger.placed("complaint of a node"));
        texts.extend(chunk.iter().map(message).map(|text| sanitise_line(&text, 300)));
        let problem = |string: &&Hostile| NodeProblem { code: codes::MF0701, message: message(string) };
        let report = report(&message(&chunk[0]), chunk.iter().map(problem).collect());
        let body = quoted(&serde_json::to_string(&report).unwrap());
        let certificate = Digest::of(part.to_string().as_bytes());
        sql.push_str(&format!(
            "INSERT INTO nodes (name, certificate_sha256) VALUES ('node-{part}', '{certificate}');
             INSERT INTO node_reports (node, boot, sequence, epoch, body)
             VALUES ('node-{part}', '{}', 1, 1, {body});",
            report.boot
        ));
    }
    let (machines, refusals) = refusals(site, strings, cookies);
    site.server.db.script(&(sql + &machines));
    texts.extend(refusals);
    site.ledger.page("/", &cookies.admin, 200, &texts);
    site.ledger.page("/nodes", &cookies.admin, 200, &texts);
    site.server.db.script(
        "INSERT INTO resources (name, kind, created_by) VALUES ('links', 'kv', 'test');
         INSERT INTO resource_grants (resource, tenant, access, granted_by) VALUES ('links', 'a', 'read', 'test');",
    );
    // Names and numbers alone.
    for path in ["/usage", "/charts", "/charts/builds", "/charts/nodes", "/resources", "/resources/links"] {
        site.ledger.page(path, &cookies.admin, 200, &[]);
    }
}

/// Why the controllers of machines refused what the site wants: one sentence each.
fn refusals(site: &mut Site, strings: &[Hostile], cookies: &Cookies) -> (String, Vec<String>) {
    let (mut sql, mut texts) = (String::new(), Vec::new());
    for string in strings {
        site.ledger.tried("refusal of a controller", string.is_storable());
        if !string.is_storable() {
            continue;
        }
        let (node, message) = (format!("machine-{}", string.number), string.at("isolation"));
        let refused = json!({ "revision": 7, "code": "MF1103", "message": message });
        let isolation = quoted(&json!({ "protocol": NODE_PROTOCOL, "refused": refused }).to_string());
        let (certificate, report) = (Digest::of(node.as_bytes()), report("", Vec::new()));
        let body = quoted(&serde_json::to_string(&report).unwrap());
        sql.push_str(&format!(
            "INSERT INTO nodes (name, certificate_sha256) VALUES ('{node}', '{certificate}');
             INSERT INTO node_reports (node, boot, sequence, epoch, body, isolation, isolation_at)
             VALUES ('{node}', '{}', 1, 1, {body}, {isolation}, now());
             INSERT INTO isolation_samples (node, slot, body) VALUES ('{node}', 0, {isolation});",
            report.boot
        ));
        texts.push(sanitise_line(&message, 300));
        if texts.len() == 1 {
            site.ledger.page(&format!("/nodes/{node}"), &cookies.admin, 200, &texts);
        }
    }
    (sql, texts)
}

fn report(text: &str, problems: Vec<NodeProblem>) -> Report {
    Report {
        protocol: NODE_PROTOCOL,
        boot: uuid::Uuid::nil(),
        sequence: 1,
        epoch: Epoch(1),
        set: SetState::Current,
        ingress_url: text.to_owned(),
        condition: Condition::Active,
        workers: 1,
        protection: text.to_owned(),
        set_digest: None,
        functions: 0,
        versions: 0,
        loaded: Vec::new(),
        refused_total: 0,
        refused_first: None,
        refused: Vec::new(),
        problems,
    }
}

/// The audit log, page by page.
pub(super) fn audit(site: &mut Site, strings: &[Hostile], cookies: &Cookies) {
    let last = || site.server.db.sql("SELECT max(seq) FROM audit_log").parse::<i64>().unwrap();
    let before = last();
    let (mut sql, mut shown) = (String::new(), Vec::new());
    for string in strings {
        for place in ["audit: who", "audit: action", "audit: subject", "audit: detail"] {
            site.ledger.tried(place, string.is_storable());
        }
        if !string.is_storable() {
            continue;
        }
        let (who, action, subject) = (string.at("actor"), string.at("action"), string.at("subject"));
        let detail = json!({ "text": string.at("detail") }).to_string();
        sql.push_str(&format!(
            "SELECT append_audit({}, {}, 'a', {}, {}::jsonb);",
            quoted(&who),
            quoted(&action),
            quoted(&subject),
            quoted(&detail)
        ));
        shown.push(vec![line(&who), line(&action), line(&subject), sanitise(&detail, 2_000)]);
    }
    site.server.db.script(&sql);
    let newest = last();
    assert_eq!(newest - before, i64::try_from(shown.len()).unwrap(), "each has a row");
    let mut end = newest + 1;
    while end > before + 1 {
        let begin = end - AUDIT_ROWS;
        let rows = (begin.max(before + 1)..end).rev();
        let texts: Vec<String> =
            rows.flat_map(|seq| shown[usize::try_from(seq - before - 1).unwrap()].clone()).collect();
        let path = if end > newest { "/audit".to_owned() } else { format!("/audit?before={end}") };
        site.ledger.page(&path, &cookies.admin, 200, &texts);
        end = begin;
    }
}

/// What the page of a running deployment gets as events, and what its ended page shows.
pub(super) struct Live {
    pub(super) deployment: String,
    events: String,
    end: String,
    pub(super) texts: Vec<String>,
    pub(super) ended: Vec<String>,
}

impl Live {
    /// A deployment that runs.
    pub(super) async fn start(site: &mut Site, strings: &[Hostile]) -> Self {
        let created = site.server.upload("live", &site.token, vec![1]).await.json();
        let deployment = created["deployment"]["id"].as_str().unwrap().to_owned();
        site.server
            .db
            .script(&format!("UPDATE deployments SET state = 'building' WHERE id = '{deployment}';"));
        let (mut events, mut texts, mut drawn, mut all) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        for string in strings {
            for place in [
                "diagnostic: message, as an event",
                "diagnostic: what a compiler drew",
                "diagnostic: file, and line and hint",
            ] {
                site.ledger.tried(place, string.is_storable());
            }
            if !string.is_storable() {
                continue;
            }
            let diagnostics = [diagnostic(string, "lexer"), diagnostic(string, "compiler")];
            let event = json!({ "stage": "compile", "kind": "diagnostic", "diagnostics": [diagnostics[0]] });
            events.push_str(&format!("SELECT append_event('{deployment}', {});", quoted(&event.to_string())));
            texts.push(sanitise(&string.at("message"), MESSAGE_BYTES));
            drawn.extend([lines(&string.at("drawn")), sanitise_line(&string.at("span"), FILE_BYTES)]);
            all.extend(diagnostics);
        }
        let end = json!({ "stage": "compile", "kind": "state", "state": "refused", "diagnostics": all });
        let end = format!(
            "UPDATE deployments SET state = 'refused', diagnostics = {} WHERE id = '{deployment}';
             SELECT append_event('{deployment}', {});",
            quoted(&Value::from(all).to_string()),
            quoted(&end.to_string())
        );
        let ended = [texts.clone(), drawn].concat();
        site.ledger.expected += texts.len() + ended.len();
        Self { deployment, events, end, texts, ended }
    }

    /// Does what the script asks for.
    pub(super) fn happen(&self, site: &Site, word: &str) {
        match word {
            "events" => site.server.db.script(&self.events),
            "end" => site.server.db.script(&self.end),
            other => panic!("the script asks for {other}"),
        }
    }
}

fn diagnostic(string: &Hostile, layer: &str) -> Value {
    let (message, rendered, other) = (string.at("message"), string.at("drawn"), string.at("span"));
    json!({
        "code": "MF0301", "level": "error", "message": message, "hint": other, "rendered": rendered, "layer": layer,
        "span": { "file": other, "line": 3, "column": 1, "end_column": 7, "text": other },
    })
}
