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
mod findings;
mod function;
mod items;
mod krate;
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

use mfaas_rules::facts::SoundnessFacts;
use mfaas_unpack::SourceTree;

use self::alias::Aliases;
use self::findings::{FACTS_MAX, Findings};
use self::items::Items;
use self::krate::Crate;
use self::relations::Relations;
use self::run::{Budget, Run};
use self::traits::Traits;
use self::types::Types;
use crate::expansion::locate::Locator;
use crate::token::Token;

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
