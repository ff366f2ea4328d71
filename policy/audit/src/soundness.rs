//! Shapes that rustc's open soundness holes need, in the macro-expanded source.
//!
//! Each hole lets safe code through the type checker that breaks memory safety. Proving that a
//! source does so takes a type checker; this reader knows tokens and items alone, and reports the
//! shape without which the hole cannot be written. Names are believed only against the tenant: two
//! things of one name share the worst of their meanings.
//!
//! It never judges, never recurses, and is paid from one budget of steps: what it could not read to
//! the end is a fact of its own, which the rules refuse.

mod alias;
mod bounds;
mod coercion;
mod demand;
mod function;
mod items;
mod object;
mod opaque;
mod outlived;
mod pointer;
mod projection;
mod ranked;
mod relations;
mod run;
mod signature;
mod subject;
mod traits;
mod types;
mod values;
mod witness;

use mfaas_rules::facts::{SoundnessFact, SoundnessFacts, SoundnessShape};
use mfaas_unpack::SourceTree;

use self::alias::Aliases;
use self::items::Items;
use self::relations::Relations;
use self::run::{Budget, Run};
use self::traits::Traits;
use self::types::Types;
use crate::expansion::locate::Locator;
use crate::token::Token;

/// Facts of one text; benign programs have none.
const FACTS_MAX: usize = 1_000;

/// Reads an expanded text. The tenant's tree serves to find the places that facts speak of.
pub fn read(text: &[u8], tree: &SourceTree) -> SoundnessFacts {
    crate::expansion::plain_tokens(text)
        .and_then(|tokens| facts(tokens, &Locator::new(tree)))
        .unwrap_or_else(|reason| SoundnessFacts { unreadable: Some(reason), facts: Vec::new() })
}

/// Reads files, as pairs of name and text, that no macro has been expanded in, so that what
/// macros would emit is missing. For measurements over sources that are not built.
pub fn read_unexpanded<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> SoundnessFacts {
    let locator = Locator::of(files);
    let mut tokens = locator.all_tokens();
    crate::expansion::remove_macro_definitions(&mut tokens);
    facts(tokens, &locator)
        .unwrap_or_else(|reason| SoundnessFacts { unreadable: Some(reason), facts: Vec::new() })
}

/// Everything that is known about the crate as a whole.
struct Crate<'a, 'b> {
    run: &'b Run<'a, 'b>,
    items: &'b Items,
    aliases: &'b Aliases<'a>,
    types: &'b Types<'a>,
    traits: &'b Traits<'a>,
    relations: &'b Relations<'a>,
}

impl<'a, 'b> Crate<'a, 'b> {
    /// The name at token `at`.
    fn name(&self, at: usize) -> &'a str {
        self.run.word(at).unwrap_or_default()
    }
}

fn facts(tokens: Vec<Token<'_>>, locator: &Locator<'_>) -> Result<SoundnessFacts, String> {
    let budget = Budget::new();
    let run = Run::new(tokens, &budget);
    let items = Items::read(&run);
    let types = Types::new(&run, &items);
    let traits = Traits::new(&run, &items, types.foreign(&run));
    let aliases = Aliases::new(&run, &items, &types);
    let relations = Relations::new(&run, &items, &aliases, &types)
        .ok_or("the definition of a type is too long to be read")?;
    let of = Crate {
        run: &run,
        items: &items,
        aliases: &aliases,
        types: &types,
        traits: &traits,
        relations: &relations,
    };
    let mut found = Findings { locator, facts: Vec::new() };
    witness::functions(&of, &mut found)?;
    pointer::function_types(&of, &mut found)?;
    ranked::bounds(&of, &mut found)?;
    projection::impls(&of, &mut found)?;
    object::blanket_impls(&of, &mut found);
    coercion::pins(&of, &mut found);
    budget.check()?;
    if found.facts.len() > FACTS_MAX {
        return Err(format!("it has more than {FACTS_MAX} places to look at"));
    }
    Ok(SoundnessFacts { facts: found.facts, unreadable: None })
}

/// What was found so far.
struct Findings<'l, 'a> {
    locator: &'l Locator<'a>,
    facts: Vec<SoundnessFact>,
}

impl Findings<'_, '_> {
    /// About the item `keyword name`, or the first `name`.
    fn add(&mut self, shape: SoundnessShape, keyword: &str, name: &str, detail: String) {
        if self.facts.len() > FACTS_MAX {
            return;
        }
        let span = self.locator.item(keyword, name);
        let subject = mfaas_ident::sanitise_line(name, 80);
        let detail = mfaas_ident::sanitise_line(&detail, 160);
        let fact = SoundnessFact { shape, subject, detail, span };
        if !self.facts.contains(&fact) {
            self.facts.push(fact);
        }
    }
}
