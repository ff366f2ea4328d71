//! The packages that are worked on: what they are called, what they bind, and whether they changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mfaas_ident::{Binding, Bindings, CalleeName, Digest, FunctionName};

use crate::commands::deploy::{Packing, name_of_package, pack};
use crate::failure::Failure;
use crate::screen::Screen;

/// One directory with Cargo.toml.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) path: PathBuf,
    /// The function's name, which stays that of the beginning.
    pub(super) name: FunctionName,
    /// Whether a version of it was served since we began.
    pub(super) is_served: bool,
    /// Where the files lie whose bytes its assets are.
    pub(super) assets: PathBuf,
    /// What was deployed last, admitted or not.
    uploaded: Option<Digest>,
}

impl Package {
    /// The package of a directory. Its assets lie in one of their own, or in `assets` beside it.
    pub(super) fn at(path: &Path, assets: Option<&Path>) -> Result<Self, Failure> {
        let path = crate::commands::up::absolute(path)?;
        let name = name_of_package(&path)?;
        let beside = || path.parent().unwrap_or(&path).join("assets");
        let assets = assets.map_or_else(beside, Path::to_path_buf);
        Ok(Self { path, name, assets, is_served: false, uploaded: None })
    }

    /// What it binds, if its files are not those of the last time. A directory that is no upload is told about, once.
    pub(super) fn changed_bindings(&mut self, screen: &Screen) -> Option<Bindings> {
        let digest = match pack(&self.path) {
            Ok(archive) => Digest::of(&archive),
            Err(Packing::Refused(diagnostic)) => Digest::of(diagnostic.message.as_bytes()),
            Err(Packing::Broken(failure)) => {
                screen.failure(&failure);
                return None;
            }
        };
        if self.uploaded.replace(digest) == Some(digest) {
            return None;
        }
        Some(self.bindings())
    }

    /// What its Cargo.toml binds. What is wrong there is the deployment's to say.
    fn bindings(&self) -> Bindings {
        let manifest = std::fs::read(self.path.join("Cargo.toml")).unwrap_or_default();
        mfaas_audit::manifest::read(&manifest).bindings
    }

    /// It counts as changed the next time.
    pub(super) fn forget_upload(&mut self) {
        self.uploaded = None;
    }
}

/// Two packages of one name would replace each other for ever.
pub(super) fn demand_one_of_each(packages: &[Package]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match packages.iter().find(|package| !names.insert(&package.name)) {
        Some(package) => Err(Failure::Usage(format!("two of the packages are called {}", package.name))),
        None => Ok(()),
    }
}

/// The order in which they can be deployed: what is called comes before what calls it. Those that call each other come last; the
/// deployment refuses them.
pub(super) fn in_order(packages: &[Package]) -> Vec<usize> {
    let calls: Vec<BTreeSet<CalleeName>> = packages
        .iter()
        .map(|package| package.bindings().values().filter_map(Binding::function).cloned().collect())
        .collect();
    let mut left: Vec<usize> = (0..packages.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let waits = |index: &usize| {
            left.iter().any(|other| calls[*index].contains(&packages[*other].name.clone().into()))
        };
        let next = left.iter().position(|index| !waits(index)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

#[cfg(test)]
mod tests;
