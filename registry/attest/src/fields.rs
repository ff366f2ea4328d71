//! What a statement says beyond what every release knows, each field critical or optional.
//!
//! A reader that meets a critical field which it does not know refuses the statement: the field may restrict what it admits.
//! An optional one it keeps and shows, and nothing follows from it. Whoever adds a field decides which of the two it is, and a
//! release never moves one from one to the other.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::{
    Access, AssetContent, Assets, BINDINGS_MAX, Binding, BindingName, Bindings, CALLERS_MAX, Callers, Class,
    DataAccess, ResourceKind, asset_bytes,
};
use serde_json::Value;

/// Critical: who may call the function.
const ACCESS: &str = "access";
/// Critical: the other tenants whose functions may call the function; not said of one that lets in none.
const CALLERS: &str = "callers";
/// Critical: which class the function is of; said of no function of the class that all were of before.
const CLASS: &str = "class";
/// Critical: what data the function may reach; not said of one that reaches none.
const BINDINGS: &str = "bindings";
/// Critical: the bytes of the assets that the function binds; not said of one that binds none.
const ASSETS: &str = "assets";
/// Critical fields that this release knows.
const KNOWN: [&str; 5] = [ACCESS, CALLERS, CLASS, BINDINGS, ASSETS];
/// Optional: the builders that made the same artifact from the source, each on its own.
const BUILDERS: &str = "builders";
/// Fields of each kind.
const FIELDS_MAX: usize = 32;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 40;

/// The fields of one admission.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    critical: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    optional: BTreeMap<String, Value>,
}

impl Fields {
    /// Those that this release writes.
    pub fn new(access: Access) -> Self {
        let critical = BTreeMap::from([(ACCESS.to_owned(), access.as_str().into())]);
        Self { critical, optional: BTreeMap::new() }
    }

    /// The same with the function's class. That a function is of class `micro` is not said: its statement is what releases
    /// that knew of no class wrote and read.
    #[must_use]
    pub fn with_class(mut self, class: Class) -> Self {
        if !class.is_default() {
            self.critical.insert(CLASS.to_owned(), class.as_str().into());
        }
        self
    }

    /// The same with the other tenants whose functions may call it. That there are none is not said, for the same reason.
    #[must_use]
    pub fn with_callers(mut self, callers: &Callers) -> Self {
        if !callers.is_empty() {
            self.critical.insert(CALLERS.to_owned(), serde_json::json!(callers));
        }
        self
    }

    /// The same with what data the function may reach. That it reaches none is not said, for the same reason.
    #[must_use]
    pub fn with_bindings(mut self, bindings: &Bindings) -> Self {
        if !bindings.is_empty() {
            self.critical.insert(BINDINGS.to_owned(), serde_json::json!(bindings));
        }
        self
    }

    /// The same with the bytes of each asset that it binds. That it binds none is not said, for the same reason.
    #[must_use]
    pub fn with_assets(mut self, assets: &Assets) -> Self {
        if !assets.is_empty() {
            self.critical.insert(ASSETS.to_owned(), serde_json::json!(assets));
        }
        self
    }

    /// The same with the builders that agreed, where more than one had to.
    #[must_use]
    pub fn with_builders(mut self, builders: &BTreeSet<String>) -> Self {
        self.optional.insert(BUILDERS.to_owned(), builders.iter().cloned().collect());
        self
    }

    /// Who may call the function.
    pub fn access(&self) -> Option<Access> {
        self.critical.get(ACCESS)?.as_str().and_then(|word| Access::parse(word).ok())
    }

    /// The other tenants whose functions may call it; nothing if that makes no sense.
    pub fn callers(&self) -> Option<Callers> {
        let Some(said) = self.critical.get(CALLERS) else { return Some(Callers::new()) };
        let callers: Callers = serde::Deserialize::deserialize(said).ok()?;
        (1..=CALLERS_MAX).contains(&callers.len()).then_some(callers)
    }

    /// Which class the function is of; nothing if that makes no sense.
    pub fn class(&self) -> Option<Class> {
        let Some(said) = self.critical.get(CLASS) else { return Some(Class::default()) };
        // What is the default is not said: there is one way to write a statement.
        said.as_str().and_then(|word| Class::parse(word).ok()).filter(|class| !class.is_default())
    }

    /// What data the function may reach; nothing if that makes no sense.
    pub fn bindings(&self) -> Option<Bindings> {
        let Some(said) = self.critical.get(BINDINGS) else { return Some(Bindings::new()) };
        let bindings: Bindings = serde::Deserialize::deserialize(said).ok()?;
        (1..=BINDINGS_MAX).contains(&bindings.len()).then_some(bindings)
    }

    /// The bytes of each asset that it binds; nothing if that makes no sense, or is not said of exactly those.
    pub fn assets(&self) -> Option<Assets> {
        let assets = match self.critical.get(ASSETS) {
            Some(said) => {
                serde::Deserialize::deserialize(said).ok().filter(|said: &Assets| !said.is_empty())?
            }
            None => Assets::new(),
        };
        let bindings = self.bindings()?;
        let bound = bindings.iter().filter(|(_, binding)| is_asset(binding)).map(|(name, _)| name);
        let is_said = bound.eq(assets.keys());
        let is_read = |name: &BindingName| {
            let binding = bindings.get(name).and_then(Binding::resource);
            binding.is_some_and(|binding| binding.access == DataAccess::Read)
        };
        let is_one = |(name, content): (&BindingName, &AssetContent)| content.bytes > 0 && is_read(name);
        let fits = asset_bytes(&assets) <= self.class()?.asset_bytes_max();
        (is_said && fits && assets.iter().all(is_one)).then_some(assets)
    }

    /// Optional fields, for whoever looks.
    pub fn optional(&self) -> &BTreeMap<String, Value> {
        &self.optional
    }

    /// Whether this release knows everything that it has to.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (kind, fields) in [("critical", &self.critical), ("optional", &self.optional)] {
            if fields.len() > FIELDS_MAX {
                return Err(format!("{} {kind} fields, the limit is {FIELDS_MAX}", fields.len()));
            }
            if let Some(name) = fields.keys().find(|name| !is_name(name)) {
                return Err(format!("a {kind} field is called {}", mfaas_ident::sanitise_line(name, 80)));
            }
        }
        if let Some(name) = self.critical.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("the critical field `{name}` is not known to this release: update it"));
        }
        if let Some(name) = self.critical.keys().find(|name| self.optional.contains_key(*name)) {
            return Err(format!("the field `{name}` is critical and optional"));
        }
        if self.access().is_none() {
            return Err("nothing is said that makes sense of who may call the function".to_owned());
        }
        if self.class().is_none() {
            return Err("what is said of the function's class makes no sense".to_owned());
        }
        if self.callers().is_none() {
            return Err("what is said of the tenants whose functions may call it makes no sense".to_owned());
        }
        if self.bindings().is_none() {
            return Err("what is said of the data that the function may reach makes no sense".to_owned());
        }
        match self.assets() {
            Some(_) => Ok(()),
            None => Err("what is said of the assets that the function binds makes no sense".to_owned()),
        }
    }
}

fn is_asset(binding: &Binding) -> bool {
    binding.resource().is_some_and(|binding| binding.kind == ResourceKind::Asset)
}

fn is_name(name: &str) -> bool {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests;
