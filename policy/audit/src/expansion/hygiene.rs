//! The two tables behind an expanded text: which macro emitted a context, and what called it.

use std::collections::{BTreeSet, HashMap};

use mfaas_rules::facts::MacroOrigin;

/// Steps of one chain that are followed. rustc's own limit on recursion is 128, and a tenant
/// cannot raise it.
const CHAIN_MAX: usize = 1_000;

/// The derives that the compiler itself implements.
const STD_DERIVES: &[&str] =
    &["Clone", "Copy", "Debug", "Default", "Eq", "Hash", "Ord", "PartialEq", "PartialOrd"];

/// The crates of the standard library, and what its own macros call it.
pub(super) const STD_ROOTS: &[&str] = &["std", "core", "alloc", "$crate"];

/// An expansion as the table names it, `crate0::{{expn5}}`.
type ExpansionId = String;

#[derive(Debug)]
struct Expansion {
    parent: ExpansionId,
    /// `None` for the root and for the compiler's own passes.
    origin: Option<MacroOrigin>,
}

#[derive(Debug)]
struct Context {
    parent: u32,
    expansion: ExpansionId,
    /// One of the macros that marked it is the tenant's, or nothing marked it.
    own: bool,
}

/// Both tables.
#[derive(Debug)]
pub(super) struct Hygiene {
    expansions: HashMap<ExpansionId, Expansion>,
    contexts: HashMap<u32, Context>,
}

impl Hygiene {
    /// Reads the comment. Every line has to be understood, and both roots have to be there.
    pub(super) fn parse(comment: &str) -> Result<Self, String> {
        let mut hygiene = Self { expansions: HashMap::new(), contexts: HashMap::new() };
        let mut lines = comment.lines().filter(|line| !line.is_empty());
        if lines.next() != Some("Expansions:") {
            return Err("it does not end with the table of expansions".to_owned());
        }
        let mut in_contexts = false;
        for line in lines {
            let understood = if line == "SyntaxContexts:" {
                !std::mem::replace(&mut in_contexts, true)
            } else if in_contexts {
                hygiene.context(line).is_some()
            } else {
                hygiene.expansion(line).is_some()
            };
            if !understood {
                return Err(format!("a line of its tables was not understood: {line}"));
            }
        }
        if hygiene.contexts.get(&0).is_none_or(|root| root.parent != 0) {
            return Err("its tables have no root".to_owned());
        }
        hygiene.check()?;
        Ok(hygiene)
    }

    /// `id: parent: id, call_site_ctxt: #0, def_site_ctxt: #0, kind: …`
    fn expansion(&mut self, line: &str) -> Option<()> {
        let (id, rest) = line.split_once(": parent: ")?;
        let (parent, rest) = rest.split_once(", call_site_ctxt: #")?;
        let (_, kind) = rest.split_once(", kind: ")?;
        let origin = match kind.strip_prefix("Macro(") {
            Some(called) => {
                let (kind, name) = called.strip_suffix("\")")?.split_once(", \"")?;
                matches!(kind, "Bang" | "Attr" | "Derive").then_some(())?;
                Some(MacroOrigin {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                    own: false,
                    borrowed: false,
                })
            }
            None => {
                let known = kind == "Root" || kind.starts_with("AstPass(") || kind.starts_with("Desugaring(");
                known.then_some(None)?
            }
        };
        let expansion = Expansion { parent: parent.to_owned(), origin };
        self.expansions.insert(id.to_owned(), expansion).is_none().then_some(())
    }

    /// `#9: parent: #0, outer_mark: (id, SemiOpaque)`
    fn context(&mut self, line: &str) -> Option<()> {
        let (number, rest) = line.strip_prefix('#')?.split_once(": parent: #")?;
        let (parent, mark) = rest.split_once(", outer_mark: (")?;
        let (expansion, _) = mark.strip_suffix(')')?.split_once(", ")?;
        let number = number.parse().ok()?;
        let context =
            Context { parent: parent.parse().ok()?, expansion: expansion.to_owned(), own: number == 0 };
        self.contexts.insert(number, context).is_none().then_some(())
    }

    /// Every name that a line uses is defined, and every chain ends.
    fn check(&self) -> Result<(), String> {
        for (number, context) in &self.contexts {
            if self.marks(*number).is_none() {
                return Err(format!("the marks of context #{number} do not end"));
            }
            if self.steps(&context.expansion).is_none() {
                return Err(format!("the expansions of context #{number} do not end"));
            }
        }
        Ok(())
    }

    pub(super) fn knows(&self, context: u32) -> bool {
        self.contexts.contains_key(&context)
    }

    /// Marks the macros with these names as the tenant's, judged by the last segment. A macro of
    /// a dependency that shares such a name counts as the tenant's too.
    pub(super) fn declare_own(&mut self, names: BTreeSet<String>) {
        for expansion in self.expansions.values_mut() {
            if let Some(origin) = &mut expansion.origin {
                origin.own = origin.kind == "Bang" && names.contains(last_segment(&origin.name));
            }
        }
        let own: Vec<u32> = self
            .contexts
            .keys()
            .copied()
            .filter(|number| *number == 0 || self.marks(*number).is_none_or(|marks| self.any_own(&marks)))
            .collect();
        for number in own {
            if let Some(context) = self.contexts.get_mut(&number) {
                context.own = true;
            }
        }
    }

    /// Marks the macros whose name may be that of another crate's: one of `names`, or a path that
    /// begins neither at a root nor with one of `std_heads`.
    pub(super) fn declare_borrowed(&mut self, names: &BTreeSet<String>, std_heads: &BTreeSet<String>) {
        for expansion in self.expansions.values_mut() {
            let Some(origin) = &mut expansion.origin else { continue };
            let path = origin.name.strip_prefix("::").unwrap_or(&origin.name);
            let mut segments = path.split("::").map(last_segment);
            let is_named = segments.clone().any(|segment| names.contains(segment));
            let head = segments.next().unwrap_or(path);
            let is_rooted =
                segments.next().is_none() || STD_ROOTS.contains(&head) || std_heads.contains(head);
            origin.borrowed = is_named || !is_rooted;
        }
    }

    fn any_own(&self, marks: &[&ExpansionId]) -> bool {
        marks.iter().any(|id| {
            let expansion = self.expansions.get(*id);
            expansion.is_none_or(|expansion| expansion.origin.as_ref().is_some_and(|origin| origin.own))
        })
    }

    /// Whether identifiers of this context are the tenant's.
    pub(super) fn is_own(&self, context: u32) -> bool {
        self.contexts.get(&context).is_none_or(|context| context.own)
    }

    /// Whether one of std's own derives emitted identifiers of this context, judged by the name.
    pub(super) fn is_std_derive(&self, context: u32) -> bool {
        let expansion =
            self.contexts.get(&context).and_then(|context| self.expansions.get(&context.expansion));
        expansion.and_then(|expansion| expansion.origin.as_ref()).is_some_and(|origin| {
            origin.kind == "Derive" && !origin.borrowed && STD_DERIVES.contains(&last_segment(&origin.name))
        })
    }

    /// The expansions within which an identifier of this context was emitted, outermost first.
    pub(super) fn chain(&self, context: u32) -> Vec<&str> {
        let expansion = self.contexts.get(&context).map(|context| &context.expansion);
        expansion.and_then(|id| self.steps(id)).unwrap_or_default()
    }

    /// The macro of an expansion, unless it is a pass of the compiler.
    pub(super) fn origin(&self, expansion: &str) -> Option<&MacroOrigin> {
        self.expansions.get(expansion).and_then(|expansion| expansion.origin.as_ref())
    }

    /// The marks of a context, innermost first; `None` if they do not end at the root.
    fn marks(&self, context: u32) -> Option<Vec<&ExpansionId>> {
        let mut marks = Vec::new();
        let mut number = context;
        while number != 0 {
            let context = self.contexts.get(&number)?;
            marks.push(&context.expansion);
            if marks.len() > CHAIN_MAX {
                return None;
            }
            number = context.parent;
        }
        Some(marks)
    }

    /// From the outermost expansion to `id`; `None` if they do not end at a root, which is its own
    /// parent.
    fn steps(&self, id: &str) -> Option<Vec<&str>> {
        let mut steps = Vec::new();
        let mut id = id;
        loop {
            let (key, expansion) = self.expansions.get_key_value(id)?;
            if expansion.parent == *key {
                steps.reverse();
                return Some(steps);
            }
            steps.push(key.as_str());
            if steps.len() > CHAIN_MAX {
                return None;
            }
            id = &expansion.parent;
        }
    }
}

/// The name itself of a macro's path, without a raw prefix.
fn last_segment(path: &str) -> &str {
    let last = path.rsplit("::").next().unwrap_or(path).trim();
    last.strip_prefix("r#").unwrap_or(last)
}
