//! `-> impl Fn(&'a str) -> &'b str + 'static`: rustc takes what is returned for `'static`, though its
//! type differs with the lifetimes, and `Any` cannot tell one from the other
//! (rust-lang/rust#112905).

use super::demand::{Demand, demands};
use super::function::Prepared;
use super::krate::Crate;
use super::signature::{Region, Zone};

/// What a closure implements by itself. Beside one of them, another crate's trait may be above `Any`.
const FUNCTIONS: &[&str] = &["Fn", "FnMut", "FnOnce", "AsyncFn", "AsyncFnMut", "AsyncFnOnce"];

/// An `impl Trait` of the output that is said to be `'static` and names a lifetime, or a parameter
/// that may have one.
pub(super) fn static_opaque_type(of: &Crate<'_, '_>, prepared: &Prepared<'_, '_>) -> Option<String> {
    let run = &prepared.run;
    let outputs = prepared.zones.iter().filter(|(zone, _)| *zone == Zone::Output);
    for (_, range) in outputs {
        for at in range.clone().filter(|at| run.is_keyword(*at, "impl")) {
            let end = run.type_end(at + 1, range.end, true);
            let demands = demands(run, at + 1..end);
            let is_function = demands
                .iter()
                .any(|demand| matches!(demand, Demand::Trait(found) if FUNCTIONS.contains(&found.name)));
            let is_static = demands.iter().any(|demand| match demand {
                Demand::Lifetime(lifetime) => prepared.bounds.says(region(lifetime), Region::Static),
                Demand::Trait(found) => {
                    of.types.is_static_name(found.name)
                        || of.traits.is_doubtful(found.name)
                        || (is_function && of.traits.may_demand_static(found.name))
                }
            });
            let regions = prepared.signature.mentions_in(&(at..end)).iter().map(|mention| mention.region);
            let shorter = regions
                .filter(|region| !prepared.bounds.says(*region, Region::Static))
                .find(|region| *region != Region::Static);
            if let Some(shorter) = shorter.filter(|_| is_static) {
                return Some(format!("the type of what it returns names {}", shorter.shown()));
            }
        }
    }
    None
}

fn region(name: &str) -> Region<'_> {
    if name == "'static" { Region::Static } else { Region::Named(name) }
}
