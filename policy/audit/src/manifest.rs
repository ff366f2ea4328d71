//! Cargo.toml as data. cargo never reads this file, so nothing in it has an effect but what is
//! taken out of it here; every key is reported, and the rules know which may stand there.

mod bounds;

use mfaas_ident::{Budget, CrateName, FunctionName, HandlerPath, MemoryLimit};
use mfaas_rules::Span;
use mfaas_rules::facts::{DependencyRequest, ManifestFact, ManifestFacts};
use toml_edit::{Document, Item, TableLike, Value};

use crate::text::Text;

const FILE: &str = "Cargo.toml";

/// Keys of a dependency that take it from elsewhere than the registry, and the keys that only
/// have a meaning beside them.
const FOREIGN: &[&str] = &["git", "path", "registry", "registry-index", "workspace"];
const FOREIGN_DETAILS: &[&str] = &["branch", "tag", "rev", "base"];

/// Reads the tenant's Cargo.toml. Size and depth are bounded before anything parses it.
pub fn read(bytes: &[u8]) -> ManifestFacts {
    let text = match bounds::check(bytes) {
        Ok(text) => text,
        Err(reason) => return unreadable(reason.to_owned(), None),
    };
    let lines = Text::new(FILE, text);
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = error.span().map(|range| lines.span(range.start, range.len()));
            return unreadable(error.message().trim().replace('\n', "; "), span);
        }
    };
    let mut reader = Reader { lines, facts: ManifestFacts::default() };
    reader.keys(document.as_table());
    reader.package(document.as_table());
    if let Some(item) = document.get("dependencies") {
        reader.dependencies(item);
    }
    reader.facts
}

fn unreadable(reason: String, span: Option<Span>) -> ManifestFacts {
    ManifestFacts { facts: vec![(ManifestFact::Unreadable(reason), span)], ..Default::default() }
}

struct Reader<'a> {
    lines: Text<'a>,
    facts: ManifestFacts,
}

impl Reader<'_> {
    fn report(&mut self, fact: ManifestFact, range: Option<std::ops::Range<usize>>) {
        let span = range.map(|range| self.lines.span(range.start, range.len()));
        self.facts.facts.push((fact, span));
    }

    /// Every key of every table, inline tables and tables in arrays included. The walk keeps its
    /// own stack.
    fn keys(&mut self, root: &dyn TableLike) {
        let mut pending: Vec<(Vec<String>, &dyn TableLike)> = vec![(Vec::new(), root)];
        while let Some((prefix, table)) = pending.pop() {
            for (name, item) in table.iter() {
                let path: Vec<String> = prefix.iter().cloned().chain([name.to_owned()]).collect();
                if !is_foreign_key(&path) {
                    let range = table.key(name).and_then(toml_edit::Key::span);
                    self.report(ManifestFact::Key(path.clone()), range);
                }
                pending.extend(tables(item).into_iter().map(|below| (path.clone(), below)));
            }
        }
        self.facts.facts.sort_by_key(|(_, span)| span.as_ref().map(|span| (span.line, span.column)));
    }

    fn package(&mut self, root: &dyn TableLike) {
        let Some(package) = root.get("package").and_then(Item::as_table_like) else {
            self.report(ManifestFact::Missing("package".to_owned()), None);
            return;
        };
        match package.get("name") {
            None => self.report(ManifestFact::Missing("package.name".to_owned()), None),
            Some(item) => {
                let _: Option<CrateName> = self.value("package.name", item, CrateName::parse);
                self.facts.name = item.as_str().and_then(|name| FunctionName::parse(name).ok());
            }
        }
        let metadata = package.get("metadata").and_then(Item::as_table_like);
        let Some(mfaas) = metadata.and_then(|table| table.get("mfaas")) else { return };
        let Some(table) = mfaas.as_table_like() else {
            self.bad("package.metadata.mfaas", "it must be a table", mfaas.span());
            return;
        };
        if let Some(item) = table.get("handler") {
            self.facts.handler = self.value("package.metadata.mfaas.handler", item, HandlerPath::parse);
        }
        if let Some(item) = table.get("budget") {
            self.facts.budget = self.value("package.metadata.mfaas.budget", item, Budget::parse);
        }
        if let Some(item) = table.get("memory") {
            self.facts.memory = self.value("package.metadata.mfaas.memory", item, MemoryLimit::parse);
        }
    }

    /// The value of a key that must be a string of the form that `parse` knows.
    fn value<T, E: std::fmt::Display>(
        &mut self,
        key: &str,
        item: &Item,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let Some(text) = item.as_str() else {
            self.bad(key, "it must be a string", item.span());
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.bad(key, &error.to_string(), item.span());
                None
            }
        }
    }

    fn bad(&mut self, key: &str, reason: &str, range: Option<std::ops::Range<usize>>) {
        let fact = ManifestFact::BadValue { key: key.to_owned(), reason: reason.to_owned() };
        self.report(fact, range);
    }

    fn dependencies(&mut self, item: &Item) {
        let Some(table) = item.as_table_like() else {
            self.bad("dependencies", "it must be a table", item.span());
            return;
        };
        for (name, item) in table.iter() {
            let range = table.key(name).and_then(toml_edit::Key::span);
            self.dependency(name, item, range);
        }
    }

    fn dependency(&mut self, name: &str, item: &Item, range: Option<std::ops::Range<usize>>) {
        let key = format!("dependencies.{name}");
        let span = range.map(|range| self.lines.span(range.start, range.len()));
        if item.as_str().is_some() {
            let request = self.request(&key, name, None, item, span);
            self.facts.dependencies.extend(request);
            return;
        }
        let Some(table) = item.as_table_like() else {
            self.bad(&key, "it must be a version or a table", item.span());
            return;
        };
        let foreign = FOREIGN.iter().find(|source| table.contains_key(source));
        if let Some(source) = foreign {
            let fact =
                ManifestFact::ForeignDependency { name: name.to_owned(), source: (*source).to_owned() };
            self.facts.facts.push((fact, span));
            return;
        }
        let Some(version) = table.get("version") else {
            self.bad(&key, "it needs a `version`", item.span());
            return;
        };
        let request = self.request(&key, name, Some(table), version, span);
        self.facts.dependencies.extend(request);
    }

    /// A dependency from the registry; `None` if one of its values is bad, which is reported.
    fn request(
        &mut self,
        key: &str,
        name: &str,
        table: Option<&dyn TableLike>,
        version: &Item,
        span: Option<Span>,
    ) -> Option<DependencyRequest> {
        let requirement = self.value(&format!("{key}.version"), version, semver::VersionReq::parse);
        // The name becomes part of the compiler's command line, whatever package stands behind it.
        if let Err(error) = CrateName::parse(name) {
            let fact = ManifestFact::BadValue { key: key.to_owned(), reason: error.to_string() };
            self.facts.facts.push((fact, span));
            return None;
        }
        let package = match table.and_then(|table| table.get("package")) {
            Some(item) => self.value(&format!("{key}.package"), item, CrateName::parse),
            None => CrateName::parse(name).ok(),
        };
        let features = match table.and_then(|table| table.get("features")) {
            Some(item) => self.strings(&format!("{key}.features"), item),
            None => Some(Vec::new()),
        };
        let default_features = match table.and_then(|table| table.get("default-features")) {
            Some(item) => self.boolean(&format!("{key}.default-features"), item),
            None => Some(true),
        };
        let package = package?;
        Some(DependencyRequest {
            rename: (package.as_str() != name).then(|| name.to_owned()),
            name: package,
            requirement: requirement?,
            features: features?,
            default_features: default_features?,
            span,
        })
    }

    fn strings(&mut self, key: &str, item: &Item) -> Option<Vec<String>> {
        let strings = item.as_array().and_then(|array| {
            array.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        if strings.is_none() {
            self.bad(key, "it must be a list of strings", item.span());
        }
        strings
    }

    fn boolean(&mut self, key: &str, item: &Item) -> Option<bool> {
        let boolean = item.as_bool();
        if boolean.is_none() {
            self.bad(key, "it must be true or false", item.span());
        }
        boolean
    }
}

/// Keys that make a dependency foreign are reported as that and not as unknown keys as well.
fn is_foreign_key(path: &[String]) -> bool {
    match path {
        [table, _, key] => {
            table == "dependencies"
                && (FOREIGN.contains(&key.as_str()) || FOREIGN_DETAILS.contains(&key.as_str()))
        }
        _ => false,
    }
}

/// The tables directly within an item: itself, or those in its arrays.
fn tables(item: &Item) -> Vec<&dyn TableLike> {
    if let Some(table) = item.as_table_like() {
        return vec![table];
    }
    if let Some(array) = item.as_array_of_tables() {
        return array.iter().map(|table| table as &dyn TableLike).collect();
    }
    let mut found: Vec<&dyn TableLike> = Vec::new();
    let mut pending: Vec<&Value> = item.as_value().into_iter().collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(array) => pending.extend(array.iter()),
            Value::InlineTable(table) => found.push(table),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => {}
        }
    }
    found
}
