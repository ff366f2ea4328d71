//! Cargo.toml as data. cargo never reads this file, so nothing in it has an effect but what is
//! taken out of it here; every key is reported, and the rules know which may stand there. A value
//! that is taken has one type, and every objection names a line.
//!
//! Must never guess: what does not have the form that is asked for is reported, not repaired.

use std::collections::HashMap;
use std::ops::Range;

use mfaas_ident::{
    Access, BINDINGS_MAX, Binding, BindingName, Budget, CALLERS_MAX, CalleeName, Class, CrateName,
    DataAccess, FunctionBinding, FunctionName, HandlerPath, Isolation, MemoryLimit, ResourceBinding,
    ResourceKind, ResourceName, TenantName,
};
use mfaas_rules::facts::{DependencyRequest, ManifestFact, ManifestFacts};
use mfaas_rules::{Span, limits::MANIFEST};
use toml_edit::{Document, Item, TableLike, Value};

use crate::bounds::{self, Bounds};
use crate::text::{Text, start_of};

const FILE: &str = "Cargo.toml";

/// Keys of a dependency that take it from elsewhere than the registry, and the keys that only
/// have a meaning beside them.
const FOREIGN: &[&str] = &["git", "path", "registry", "registry-index", "workspace"];
const FOREIGN_DETAILS: &[&str] = &["branch", "tag", "rev", "base"];

/// Reads the tenant's Cargo.toml. Size and depth are bounded before anything parses it, the
/// number of keys and the length of their paths before anything is kept of them.
pub fn read(bytes: &[u8]) -> ManifestFacts {
    let bounds = Bounds { bytes_max: MANIFEST.bytes_max, depth_max: MANIFEST.depth_max };
    let text = match bounds::check(bytes, bounds) {
        Ok(text) => text,
        Err(fault) => return unreadable(fault.reason.words(bounds), place_in(bytes, fault.at)),
    };
    let lines = Text::new(FILE, text);
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let range = error.span().unwrap_or_default();
            return unreadable(
                error.message().trim().replace('\n', "; "),
                lines.span(range.start, range.len()),
            );
        }
    };
    let mut reader = Reader { lines, facts: ManifestFacts::default() };
    if let Err((reason, span)) = reader.keys(document.as_table()) {
        return unreadable(reason, span);
    }
    reader.package(document.as_table());
    if let Some(item) = document.get("lib") {
        // Its few keys mean nothing here, but they are keys of a table.
        let _ = reader.table("lib", item);
    }
    if let Some(item) = document.get("features") {
        reader.features(item);
    }
    if let Some(item) = document.get("dependencies") {
        reader.dependencies(item);
    }
    reader.facts
}

fn unreadable(reason: String, span: Span) -> ManifestFacts {
    ManifestFacts { facts: vec![(ManifestFact::Unreadable(reason), Some(span))], ..Default::default() }
}

/// The place of a byte in a text that may end in something else than text.
fn place_in(bytes: &[u8], at: usize) -> Span {
    let readable = &bytes[..at.min(bytes.len())];
    match std::str::from_utf8(readable) {
        Ok(text) => Text::new(FILE, text).span(at, 1),
        Err(_) => start_of(FILE),
    }
}

struct Reader<'a> {
    lines: Text<'a>,
    facts: ManifestFacts,
}

impl Reader<'_> {
    fn report(&mut self, fact: ManifestFact, range: Option<Range<usize>>) {
        let span = self.place(range);
        self.facts.facts.push((fact, span));
    }

    fn place(&self, range: Option<Range<usize>>) -> Option<Span> {
        range.map(|range| self.lines.span(range.start, range.len()))
    }

    /// Every key of every table, inline tables and tables in arrays included. The walk keeps its
    /// own stack. Fails when there are more keys, or longer paths, than anyone writes.
    fn keys(&mut self, root: &dyn TableLike) -> Result<(), (String, Span)> {
        let mut pending: Vec<(Vec<String>, &dyn TableLike)> = vec![(Vec::new(), root)];
        let mut count = 0;
        while let Some((prefix, table)) = pending.pop() {
            for (name, item) in table.iter() {
                let path: Vec<String> = prefix.iter().cloned().chain([name.to_owned()]).collect();
                let range = table.key(name).and_then(toml_edit::Key::span);
                count += 1;
                let excess = if count > MANIFEST.keys_max {
                    Some(format!("it has more than {} keys", MANIFEST.keys_max))
                } else if path.len() > MANIFEST.depth_max {
                    Some(format!("it is nested deeper than {} levels", MANIFEST.depth_max))
                } else {
                    None
                };
                if let Some(reason) = excess {
                    return Err((reason, self.place(range).unwrap_or_else(|| start_of(FILE))));
                }
                if !is_foreign_key(&path) {
                    self.report(ManifestFact::Key(path.clone()), range);
                }
                pending.extend(tables(item).into_iter().map(|below| (path.clone(), below)));
            }
        }
        self.facts.facts.sort_by_key(|(_, span)| span.as_ref().map(|span| (span.line, span.column)));
        Ok(())
    }

    fn package(&mut self, root: &dyn TableLike) {
        let Some(item) = root.get("package") else {
            self.facts.facts.push((ManifestFact::Missing("package".to_owned()), Some(start_of(FILE))));
            return;
        };
        let Some(package) = self.table("package", item) else { return };
        match package.get("name") {
            None => {
                let range = root.key("package").and_then(toml_edit::Key::span);
                self.report(ManifestFact::Missing("package.name".to_owned()), range);
            }
            // It names the function too, whose names are the stricter ones.
            Some(item) => self.facts.name = self.value("package.name", item, FunctionName::parse),
        }
        let metadata = package.get("metadata").and_then(|item| self.table("package.metadata", item));
        let mfaas = metadata.and_then(|table| table.get("mfaas"));
        let Some(table) = mfaas.and_then(|item| self.table("package.metadata.mfaas", item)) else { return };
        self.declarations(table);
    }

    /// How the function says that it is to run.
    fn declarations(&mut self, table: &dyn TableLike) {
        if let Some(item) = table.get("handler") {
            self.facts.handler = self.value("package.metadata.mfaas.handler", item, HandlerPath::parse);
        }
        if let Some(item) = table.get("budget") {
            self.facts.budget = self.value("package.metadata.mfaas.budget", item, Budget::parse);
            if let Some(budget) = self.facts.budget {
                self.report(ManifestFact::Budget(budget), item.span());
            }
        }
        if let Some(item) = table.get("memory") {
            self.facts.memory = self.value("package.metadata.mfaas.memory", item, MemoryLimit::parse);
            if let Some(memory) = self.facts.memory {
                self.report(ManifestFact::Memory(memory), item.span());
            }
        }
        if let Some(item) = table.get("idempotent") {
            self.facts.idempotent = self.boolean("package.metadata.mfaas.idempotent", item);
        }
        if let Some(item) = table.get("isolation") {
            self.facts.isolation = self.value("package.metadata.mfaas.isolation", item, Isolation::parse);
        }
        if let Some(item) = table.get("access") {
            self.facts.access = self.value("package.metadata.mfaas.access", item, Access::parse);
        }
        if let Some(item) = table.get("callers") {
            self.callers(item);
        }
        if let Some(item) = table.get("class") {
            self.facts.class = self.value("package.metadata.mfaas.class", item, Class::parse);
        }
        if let Some(item) = table.get("bindings") {
            self.bindings(item);
        }
    }

    /// The other tenants whose functions may call it.
    fn callers(&mut self, item: &Item) {
        let key = "package.metadata.mfaas.callers";
        let Some(names) = self.strings(key, item) else { return };
        if names.len() > CALLERS_MAX {
            let reason = format!("{} tenants, the limit is {CALLERS_MAX}", names.len());
            return self.bad(key, &reason, item.span());
        }
        for name in names {
            match TenantName::parse(&name) {
                Ok(name) => drop(self.facts.callers.insert(name)),
                Err(error) => self.bad(key, &error.to_string(), item.span()),
            }
        }
    }

    /// What data it may reach, and which functions it may call.
    fn bindings(&mut self, item: &Item) {
        let key = "package.metadata.mfaas.bindings";
        let Some(table) = self.table(key, item) else { return };
        if table.len() > BINDINGS_MAX {
            let reason = format!("{} bindings, the limit is {BINDINGS_MAX}", table.len());
            return self.bad(key, &reason, item.span());
        }
        for (name, item) in table.iter() {
            let key = format!("{key}.{name}");
            let name = match BindingName::parse(name) {
                Ok(name) => name,
                Err(error) => {
                    self.bad(&key, &error.to_string(), table.key(name).and_then(toml_edit::Key::span));
                    continue;
                }
            };
            if let Some(binding) = self.binding(&key, &name, item) {
                self.facts.bindings.insert(name, binding);
            }
        }
    }

    /// One binding; `None` if one of its values is bad, which is reported.
    fn binding(&mut self, key: &str, name: &BindingName, item: &Item) -> Option<Binding> {
        let table = self.table(key, item)?;
        let Some(kind) = table.get("kind") else {
            self.bad(key, "it needs a `kind`", item.span());
            return None;
        };
        if kind.as_str() == Some(FunctionBinding::KIND) {
            return self.function(key, name, table).map(Binding::Function);
        }
        if let Some(item) = table.get("function") {
            self.bad(&format!("{key}.function"), "a resource has none", item.span());
            return None;
        }
        let parse = |text: &str| {
            ResourceKind::parse(text).map_err(|error| format!("{error}, or {}", FunctionBinding::KIND))
        };
        let kind = self.value(&format!("{key}.kind"), kind, parse);
        let resource = match table.get("resource") {
            Some(item) => self.value(&format!("{key}.resource"), item, ResourceName::parse),
            // The names of bindings are the shorter ones.
            None => ResourceName::parse(name.as_str()).ok(),
        };
        let access = match table.get("access") {
            Some(item) if kind == Some(ResourceKind::Secret) => {
                self.bad(&format!("{key}.access"), "a secret has none", item.span());
                None
            }
            Some(item) => self.value(&format!("{key}.access"), item, DataAccess::parse).filter(|access| {
                let changes_asset = kind == Some(ResourceKind::Asset) && *access != DataAccess::Read;
                if changes_asset {
                    self.bad(&format!("{key}.access"), "an asset never changes: it is `read`", item.span());
                }
                !changes_asset
            }),
            None => Some(DataAccess::default()),
        };
        Some(Binding::Resource(ResourceBinding { kind: kind?, resource: resource?, access: access? }))
    }

    /// A binding of a function; `None` if one of its values is bad, which is reported.
    fn function(&mut self, key: &str, name: &BindingName, table: &dyn TableLike) -> Option<FunctionBinding> {
        for other in ["resource", "access"] {
            if let Some(item) = table.get(other) {
                self.bad(&format!("{key}.{other}"), "a function has none", item.span());
                return None;
            }
        }
        let function = match table.get("function") {
            Some(item) => self.value(&format!("{key}.function"), item, CalleeName::parse),
            None => CalleeName::parse(name.as_str()).ok(),
        };
        function.map(FunctionBinding::new)
    }

    /// Nobody switches a feature on, so a list of them is checked for its form alone; a default
    /// that would change the function is not passed over in silence.
    fn features(&mut self, item: &Item) {
        let Some(table) = self.table("features", item) else { return };
        for (name, item) in table.iter() {
            let key = format!("features.{name}");
            let Some(list) = self.strings(&key, item) else { continue };
            if name == "default" && !list.is_empty() {
                self.bad(
                    &key,
                    "no feature of the function itself is switched on; it must be []",
                    item.span(),
                );
            }
        }
    }

    fn table<'item>(&mut self, key: &str, item: &'item Item) -> Option<&'item dyn TableLike> {
        let table = item.as_table_like();
        if table.is_none() {
            self.bad(key, "it must be a table", item.span());
        }
        table
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

    fn bad(&mut self, key: &str, reason: &str, range: Option<Range<usize>>) {
        let fact = ManifestFact::BadValue { key: key.to_owned(), reason: reason.to_owned() };
        self.report(fact, range);
    }

    fn dependencies(&mut self, item: &Item) {
        let Some(table) = self.table("dependencies", item) else { return };
        let mut names: HashMap<String, &str> = HashMap::new();
        for (name, item) in table.iter() {
            let range = table.key(name).and_then(toml_edit::Key::span);
            // The compiler knows both by one name.
            if let Some(other) = names.insert(name.replace('-', "_"), name) {
                self.bad(
                    &format!("dependencies.{name}"),
                    &format!("`{other}` has the same name in the source"),
                    range,
                );
                continue;
            }
            self.dependency(name, item, range);
        }
    }

    fn dependency(&mut self, name: &str, item: &Item, range: Option<Range<usize>>) {
        let key = format!("dependencies.{name}");
        let span = self.place(range);
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
