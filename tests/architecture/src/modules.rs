//! The modules of a crate and which of them needs which, read from its source.
//!
//! A module is a file below `src`, and the root file of each target. It needs another when its code names something that
//! is defined there, by `use` or by a path anywhere else. What does not count:
//! - `mod child;` alone;
//! - what a file only passes on: a `pub`, `pub(crate)` or `pub(super)` `use` whose name the file's own code does not use. Who imports that
//!   name from there needs the module that defines it;
//! - what is compiled for tests alone (`#[cfg(test)]`, `#[test]`).
//!
//! Names that a glob brings and paths inside of macros' own definitions are not seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, UseTree, Visibility,
    visit::{self, Visit},
};

/// Segments below the crate's root: none for the root itself.
type ModulePath = Vec<String>;

/// A module's file and what its code names.
#[derive(Debug, Default)]
struct Module {
    /// Relative to the checkout.
    file: String,
    /// Modules in files of their own that it declares.
    children: BTreeSet<String>,
    /// What each imported name leads to, and whether others may import it from here.
    imports: BTreeMap<String, (Vec<String>, bool)>,
    /// Each path of its code, as it is written.
    paths: BTreeSet<Vec<String>>,
}

/// Which file needs which others, for all files of one target.
pub type Needs = BTreeMap<String, BTreeSet<String>>;

/// Reads the target whose root is `file`, relative to the checkout.
///
/// # Panics
/// When a file cannot be read or is no Rust.
pub fn needs_of(file: &str) -> Needs {
    let mut modules = BTreeMap::new();
    read_module(file, Vec::new(), true, &mut modules);
    needs_between(&modules)
}

/// The same for modules that are given as text: path with `::`, text. The root's path is empty.
///
/// # Panics
/// When a text is no Rust.
pub fn needs_of_texts(texts: &[(&str, &str)]) -> Needs {
    let modules = texts.iter().map(|(name, text)| {
        let path: ModulePath =
            name.split("::").filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        (path, parse(name, text))
    });
    needs_between(&modules.collect())
}

fn needs_between(modules: &BTreeMap<ModulePath, Module>) -> Needs {
    let file_of = |path: &ModulePath| modules[path].file.clone();
    modules
        .iter()
        .map(|(path, module)| {
            let passed_on = |name: &String| module.imports.get(name).is_some_and(|(_, passes_on)| *passes_on);
            let imported = module.imports.iter().filter(|(name, _)| !passed_on(name)).map(|(_, (to, _))| to);
            let needed = imported.chain(&module.paths).filter_map(|to| target_of(modules, path, to, 0));
            (module.file.clone(), needed.filter(|to| to != path).map(|to| file_of(&to)).collect())
        })
        .collect()
}

/// How often a name may be passed on before it is found: more is a mistake of ours.
const HOPS_MAX: usize = 16;

/// The module that defines what `names` means in the module `from`; nothing for other crates and the prelude.
fn target_of(
    modules: &BTreeMap<ModulePath, Module>,
    from: &ModulePath,
    names: &[String],
    hops: usize,
) -> Option<ModulePath> {
    assert!(hops < HOPS_MAX, "{names:?} in {from:?} is passed on in a circle");
    let mut at = from.clone();
    let mut names = names;
    let mut is_first = true;
    while let [first, rest @ ..] = names {
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            name if modules.get(&at)?.children.contains(name) => at.push(first.clone()),
            name => {
                let module = modules.get(&at)?;
                if let Some((to, _)) = module.imports.get(name).filter(|(to, _)| to.as_slice() != names) {
                    let to: Vec<String> = to.iter().chain(rest).cloned().collect();
                    // An import of another crate leads nowhere here: then the name is that crate's.
                    return target_of(modules, &at, &to, hops + 1);
                }
                return (!is_first).then_some(at);
            }
        }
        (names, is_first) = (rest, false);
    }
    (!is_first).then_some(at)
}

fn read_module(file: &str, path: ModulePath, is_root: bool, into: &mut BTreeMap<ModulePath, Module>) {
    let module = parse(file, &crate::read(file));
    let directory = directory_of_children(file, is_root);
    for child in &module.children {
        let files = [directory.join(format!("{child}.rs")), directory.join(child).join("mod.rs")];
        let found = files.iter().find(|file| crate::root().join(file).is_file());
        let found = found.unwrap_or_else(|| panic!("{file}: the module {child} has no file"));
        let path = path.iter().chain([child]).cloned().collect();
        read_module(&found.display().to_string(), path, false, into);
    }
    into.insert(path, module);
}

fn directory_of_children(file: &str, is_root: bool) -> PathBuf {
    let file = Path::new(file);
    let directory = file.parent().unwrap_or(Path::new(""));
    let is_index = is_root || file.file_name().is_some_and(|name| name == "mod.rs");
    if is_index { directory.to_path_buf() } else { directory.join(file.file_stem().unwrap_or_default()) }
}

fn parse(file: &str, text: &str) -> Module {
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut reader = Reader { module: Module { file: file.to_owned(), ..Module::default() }, depth: 0 };
    reader.visit_file(&parsed);
    reader.module
}

/// Gathers what one file declares, imports and names.
struct Reader {
    module: Module,
    /// Modules inside of the file around what is read: their `super` is the file itself.
    depth: usize,
}

impl Reader {
    fn import(&mut self, tree: &UseTree, before: &[String], passes_on: bool) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), passes_on),
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                self.module.imports.insert(last, (before.to_vec(), passes_on));
            }
            UseTree::Name(name) => {
                self.module.imports.insert(name.ident.to_string(), (with(&name.ident), passes_on));
            }
            UseTree::Rename(rename) => {
                // `as _` is no name, and may stand there several times.
                let name = format!("{} as {}", with(&rename.ident).join("::"), rename.rename);
                let name = if rename.rename == "_" { name } else { rename.rename.to_string() };
                self.module.imports.insert(name, (with(&rename.ident), passes_on));
            }
            UseTree::Glob(_) => drop(self.module.paths.insert(before.to_vec())),
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.import(item, before, passes_on));
            }
        }
    }

    fn name(&mut self, mut names: Vec<String>) {
        // A module inside of the file is the file: its first `super`s lead no further.
        let supers = names.iter().take_while(|name| *name == "super").count();
        names.drain(..supers.min(self.depth));
        if !names.is_empty() {
            self.module.paths.insert(names);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => &[],
        };
        if attributes.iter().any(is_for_tests) {
            return;
        }
        match item {
            Item::Use(item) => {
                let passes_on = !matches!(item.vis, Visibility::Inherited);
                if self.depth == 0 {
                    self.import(&item.tree, &[], passes_on);
                }
            }
            Item::Mod(item) if item.content.is_none() => {
                self.module.children.insert(item.ident.to_string());
            }
            Item::Mod(_) => {
                self.depth += 1;
                visit::visit_item(self, item);
                self.depth -= 1;
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !function.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    /// Who may use an item is no need of it.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        paths_of(invoked.tokens.clone()).into_iter().for_each(|names| self.name(names));
        visit::visit_macro(self, invoked);
    }
}

/// `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, …))]`.
pub fn is_for_tests(attribute: &Attribute) -> bool {
    let Ok(list) = attribute.meta.require_list() else { return attribute.path().is_ident("test") };
    let text = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (text == "test" || text.starts_with("all (test") || text.starts_with("all(test"))
}

/// The paths in a macro's arguments, which need not be Rust. What a literal spells is none.
fn paths_of(tokens: TokenStream) -> Vec<Vec<String>> {
    let (mut paths, mut path, mut colons) = (Vec::new(), Vec::new(), 0);
    for token in tokens {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Ident(name) => {
                match (colons, path.is_empty()) {
                    (2, false) => {}
                    // `::name` is another crate's.
                    (2, true) => path.push(String::new()),
                    _ => paths.push(std::mem::take(&mut path)),
                }
                path.push(name.to_string());
                colons = 0;
            }
            other => {
                paths.push(std::mem::take(&mut path));
                if let TokenTree::Group(group) = other {
                    paths.extend(paths_of(group.stream()));
                }
                colons = 0;
            }
        }
    }
    paths.push(path);
    paths.retain(|path| !path.is_empty());
    paths
}

/// The files that stand in a circle, circle by circle: each needs each other one of its circle, directly or not.
pub fn circles(needs: &Needs) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|file| (file, reach(needs, file))).collect();
    let circle_of = |file: &String| -> BTreeSet<String> {
        let together = |other: &&String| reached[file].contains(*other) && reached[*other].contains(file);
        needs.keys().filter(together).cloned().collect()
    };
    let found: BTreeSet<BTreeSet<String>> =
        needs.keys().map(circle_of).filter(|circle| !circle.is_empty()).collect();
    found.into_iter().collect()
}

fn reach<'n>(needs: &'n Needs, file: &String) -> BTreeSet<&'n String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = needs[file].iter().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&needs[file]);
        }
    }
    reached
}
