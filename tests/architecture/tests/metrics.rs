//! docs/metrics.md lists what programs export, and dashboard and alert rules use nothing else.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};

use mfaas_architecture::{read, tracked_files};
use serde_json::Value;

/// Metrics of functions, which a node writes in the text format itself.
const EXPOSITION: &str = "node-runtime/node/src/usage/exposition.rs";
/// Units and what may stand behind them, as Prometheus has them.
const UNITS: [&str; 2] = ["seconds", "bytes"];
/// Units that are not the base ones.
const OTHER_UNITS: [&str; 7] = ["milliseconds", "microseconds", "ms", "us", "minutes", "kilobytes", "mib"];

/// What the code of programs says: names by the macro before them, `counter!` or `describe_counter!`.
fn in_macros(prefix: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let is_code =
        |file: &String| file.ends_with(".rs") && file.contains("/src/") && !file.ends_with("tests.rs");
    for file in tracked_files().into_iter().filter(is_code) {
        let text = read(&file);
        for kind in ["counter", "gauge", "histogram"] {
            for (at, marker) in text.match_indices(&format!("{prefix}{kind}!(")) {
                let is_longer = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                let name = text[at + marker.len()..]
                    .trim_start()
                    .strip_prefix('"')
                    .and_then(|t| t.split('"').next());
                if let Some(name) = name.filter(|name| name.starts_with("mfaas_") && !is_longer) {
                    found.entry(name.to_owned()).or_default().insert(kind.to_owned());
                }
            }
        }
    }
    found
}

/// Name and type of each metric that a program exports.
fn exported() -> BTreeMap<String, String> {
    let described = in_macros("describe_").into_iter().map(|(name, kinds)| {
        assert_eq!(kinds.len(), 1, "{name} is described as {kinds:?}");
        (name, kinds.into_iter().next().unwrap())
    });
    let mut all: BTreeMap<String, String> = described.collect();
    let own = read(EXPOSITION);
    for name in own.split('"').filter(|text| {
        text.starts_with("mfaas_") && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    }) {
        let kind = match name {
            _ if name.ends_with("_total") => "counter",
            _ if name.ends_with("_seconds") => "histogram",
            _ => "gauge",
        };
        all.insert(name.to_owned(), kind.to_owned());
    }
    all
}

/// The rows of docs/metrics.md.
fn documented() -> BTreeMap<String, String> {
    let text = read("docs/metrics.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `mfaas_")?.split(" | ");
        Some((format!("mfaas_{}", cells.next()?.trim_end_matches('`')), cells.next()?.to_owned()))
    };
    let rows: Vec<(String, String)> = text.lines().filter_map(row).collect();
    let all: BTreeMap<String, String> =
        rows.iter().filter(|(name, _)| !name.contains('-')).cloned().collect();
    assert_eq!(
        rows.iter().filter(|(name, _)| !name.contains('-')).count(),
        all.len(),
        "a metric has two rows"
    );
    all
}

/// The metrics of ours that a query asks for, without what stands behind the name of a histogram.
fn asked(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let bare = |word: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        of_histogram.unwrap_or(word).to_owned()
    };
    words.filter(|word| word.starts_with("mfaas_")).map(bare).collect()
}

/// Every value of that key, wherever it is.
fn values(tree: &Value, key: &str) -> Vec<String> {
    match tree {
        Value::Object(map) => {
            let here = map.get(key).and_then(Value::as_str).map(str::to_owned);
            here.into_iter().chain(map.values().flat_map(|value| values(value, key))).collect()
        }
        Value::Array(list) => list.iter().flat_map(|value| values(value, key)).collect(),
        _ => Vec::new(),
    }
}

fn alerts() -> Value {
    serde_saphyr::from_str(&read("packaging/monitoring/alerts.yaml")).unwrap()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("packaging/monitoring/dashboard.json")).unwrap()
}

#[test]
fn what_is_exported_is_documented_with_its_type_and_nothing_else_is() {
    let (exported, documented) = (exported(), documented());
    assert!(exported.len() > 80, "only {} metrics were found in the code", exported.len());
    let only = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| {
        a.iter()
            .filter(|(name, kind)| b.get(*name) != Some(kind))
            .map(|(n, k)| format!("{n} {k}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(only(&exported, &documented), [""; 0], "docs/metrics.md lacks these");
    assert_eq!(only(&documented, &exported), [""; 0], "no program has these of docs/metrics.md");
}

#[test]
fn what_is_recorded_has_a_help_text_and_what_has_one_is_recorded() {
    let (recorded, described) = (in_macros(""), in_macros("describe_"));
    for (name, kinds) in &recorded {
        assert_eq!(described.get(name), Some(kinds), "{name} is recorded so, and described otherwise");
    }
    let sources: String = tracked_files()
        .iter()
        .filter(|file| file.ends_with(".rs") && file.contains("/src/"))
        .map(|f| read(f))
        .collect();
    for name in described.keys() {
        let uses = sources.matches(&format!("\"{name}\"")).count();
        assert!(uses > 1, "{name} is described, and nobody records it");
    }
}

#[test]
fn names_and_units_are_those_that_prometheus_asks_for() {
    for (name, kind) in exported() {
        let is_counter = name.ends_with("_total");
        assert_eq!(is_counter, kind == "counter", "{name} is a {kind}");
        let words: Vec<&str> = name.split('_').collect();
        assert!(
            words.iter().all(|word| !OTHER_UNITS.contains(word)),
            "{name}: seconds and bytes are the units"
        );
        if kind == "histogram" {
            assert!(UNITS.contains(words.last().unwrap()), "{name} does not end in its unit");
        }
    }
}

#[test]
fn every_query_of_dashboard_and_alerts_asks_for_what_there_is() {
    let exported = exported();
    let queries: Vec<String> =
        values(&dashboard(), "expr").into_iter().chain(values(&alerts(), "expr")).collect();
    assert!(queries.len() > 50, "only {} queries were found", queries.len());
    for query in &queries {
        let asked = asked(query);
        let process = query.contains("process_");
        assert!(!asked.is_empty() || process, "nothing of ours: {query}");
        for name in asked {
            let kind = exported.get(&name).unwrap_or_else(|| panic!("no program exports {name}: {query}"));
            let is_split = query.contains(&format!("{name}_bucket"))
                || query.contains(&format!("{name}_sum"))
                || query.contains(&format!("{name}_count"));
            assert_eq!(kind == "histogram", is_split, "{name} is a {kind}: {query}");
            let is_rate =
                query.contains(&format!("rate({name}")) || query.contains(&format!("increase({name}"));
            assert_eq!(kind == "gauge", !is_rate, "{name} is a {kind}: {query}");
        }
        let balance = |open, close| query.matches(open).count() == query.matches(close).count();
        assert!(balance('(', ')') && balance('{', '}') && balance('[', ']') && balance('"', '"'), "{query}");
    }
}

#[test]
fn alerts_have_all_that_a_rule_has() {
    let file = alerts();
    let groups = file["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert!(rules.len() > 10 && names.len() == rules.len(), "{names:?}");
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        let known = ["alert", "expr", "for", "labels", "annotations"];
        assert!(rule.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{name}: {rule}");
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["warning", "critical"].contains(&severity), "{name}: {severity}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| text.len() > 10), "{name}: {text}");
        }
    }
}

#[test]
fn panels_lie_side_by_side_and_have_their_source() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let (title, place) = (&panel["title"], &panel["gridPos"]);
        let at = |key: &str| place[key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title} is beyond the edge");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{title} lies on another panel");
            }
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${source}", "{title}");
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title} shows nothing");
        }
    }
}
