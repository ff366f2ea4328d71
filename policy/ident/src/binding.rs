//! What a function may reach: names of its own, and behind them the resources of the site and other functions.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BindingName, Digest, FunctionName, ParseError, ResourceName, TenantName};

/// Bindings of one function, at most.
pub const BINDINGS_MAX: usize = 16;

/// What a kind is told by.
const KINDS: &str = "one of kv, cache, object, volume, http, secret, asset";

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// Values by key, in a database.
    Kv,
    /// Values by key in the memory of each node, which may be gone at any time.
    Cache,
    /// Bytes by name, in a store of objects.
    Object,
    /// Files by path.
    Volume,
    /// A server that is asked over HTTP.
    Http,
    /// A value that a request to a server may carry, and nobody reads.
    Secret,
    /// Bytes that never change, in the memory of the workers that run the function.
    Asset,
}

impl ResourceKind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Kv, Self::Cache, Self::Object, Self::Volume, Self::Http, Self::Secret, Self::Asset];

    /// The word in the manifest, in statements, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Cache => "cache",
            Self::Object => "object",
            Self::Volume => "volume",
            Self::Http => "http",
            Self::Secret => "secret",
            Self::Asset => "asset",
        }
    }

    /// Whether the data broker of a node reaches it, and not the node itself.
    pub const fn is_of_broker(self) -> bool {
        match self {
            Self::Kv | Self::Object | Self::Volume | Self::Http | Self::Secret => true,
            Self::Cache | Self::Asset => false,
        }
    }

    /// The kind of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| ParseError::new("kind of a resource", text, KINDS))
    }
}

impl std::str::FromStr for ResourceKind {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The bytes of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetContent {
    /// What they are.
    pub digest: Digest,
    /// How many.
    pub bytes: u64,
}

/// The bytes of the assets of a function, by the names of their bindings.
pub type Assets = BTreeMap<BindingName, AssetContent>;

/// So many bytes all of them take together, each counted once.
pub fn asset_bytes(assets: &Assets) -> u64 {
    let each: BTreeSet<_> = assets.values().collect();
    each.iter().fold(0, |sum, asset| sum.saturating_add(asset.bytes))
}

/// What may be done with a resource. The greater includes the less.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum DataAccess {
    /// To look; of a server, to ask what changes nothing there; of a secret, to use it.
    #[default]
    Read,
    /// To look and to change.
    Write,
}

impl DataAccess {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The word in the manifest, in statements, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// The access of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|access| access.as_str() == text)
            .ok_or_else(|| ParseError::new("access to data", text, "one of read, write"))
    }
}

impl std::str::FromStr for DataAccess {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for DataAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What stands behind the name of a binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Binding {
    /// Data of the site.
    Resource(ResourceBinding),
    /// A function that the function may call.
    Function(FunctionBinding),
}

impl Binding {
    /// The resource, if it is one.
    pub const fn resource(&self) -> Option<&ResourceBinding> {
        match self {
            Self::Resource(binding) => Some(binding),
            Self::Function(_) => None,
        }
    }

    /// The function, if it is one.
    pub const fn function(&self) -> Option<&CalleeName> {
        match self {
            Self::Resource(_) => None,
            Self::Function(binding) => Some(&binding.function),
        }
    }
}

/// A function that another one calls, of its own tenant or of another one: `rank`, `search/rank`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CalleeName {
    /// Whose it is, if not the caller's.
    pub tenant: Option<TenantName>,
    /// The function.
    pub function: FunctionName,
}

impl CalleeName {
    /// The function of that name, of the caller's tenant or of the one before a `/`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (tenant, function) = match text.split_once('/') {
            Some((tenant, function)) => (Some(TenantName::parse(tenant)?), function),
            None => (None, text),
        };
        Ok(Self { tenant, function: FunctionName::parse(function)? })
    }

    /// Whose it is where a function of `caller` names it.
    pub fn tenant_for<'a>(&'a self, caller: &'a TenantName) -> &'a TenantName {
        self.tenant.as_ref().unwrap_or(caller)
    }
}

impl TryFrom<String> for CalleeName {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<CalleeName> for String {
    fn from(name: CalleeName) -> Self {
        name.to_string()
    }
}

impl From<FunctionName> for CalleeName {
    fn from(function: FunctionName) -> Self {
        Self { tenant: None, function }
    }
}

impl std::str::FromStr for CalleeName {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for CalleeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.tenant {
            Some(tenant) => write!(f, "{tenant}/{}", self.function),
            None => self.function.fmt(f),
        }
    }
}

/// A function that may be called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionBinding {
    kind: FunctionKind,
    /// The function: the version that its alias `live` names when it is called.
    pub function: CalleeName,
}

impl FunctionBinding {
    /// The word in the manifest, in statements and on the wire: the kind of what is no resource.
    pub const KIND: &'static str = "function";

    /// One of that function.
    pub const fn new(function: CalleeName) -> Self {
        Self { kind: FunctionKind::Function, function }
    }
}

/// Tells it from a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum FunctionKind {
    Function,
}

/// A resource, and what may be done with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceBinding {
    /// What the resource is.
    pub kind: ResourceKind,
    /// The resource of the site.
    pub resource: ResourceName,
    /// What the function may do with it.
    pub access: DataAccess,
}

/// The bindings of a function. A function names one by its place in this order.
pub type Bindings = BTreeMap<BindingName, Binding>;
