//! A parameter `P` that outlives some lifetime: rustc concludes that `P::X` outlives it too, which is
//! false for closures and whatever holds one (rust-lang/rust#84366).
//!
//! The value of the type `P::X` may come out of `P` itself, as out of a `Peekable`, and for
//! `'static` it may go anywhere, so nothing else of the signature can acquit the function but a bound
//! for `P::X`. A shorter lifetime has to be named where the value is put.

use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::function::Prepared;
use super::items::Function;
use super::krate::Crate;
use super::run::Run;
use super::signature::{Mention, Region, Zone};
use super::subject::Subject;

/// Types of std that hold nothing but references of the lifetime that they name.
const REFERENCES: &[&str] = &[
    "Bytes",
    "CharIndices",
    "Chars",
    "Chunks",
    "Cow",
    "Drain",
    "Entry",
    "Iter",
    "IterMut",
    "Keys",
    "Lines",
    "MutexGuard",
    "OccupiedEntry",
    "PhantomData",
    "Ref",
    "RefMut",
    "RwLockReadGuard",
    "RwLockWriteGuard",
    "Split",
    "VacantEntry",
    "Values",
    "ValuesMut",
    "Windows",
];

/// The bound that is believed too far, if there is one.
pub(super) fn outlived_associated_type(
    of: &Crate<'_, '_>,
    function: &Function,
    prepared: &Prepared<'_, '_>,
) -> Option<String> {
    if !function.has_body {
        return None;
    }
    let bounds = &prepared.bounds;
    let named = bounds.subjects.iter().filter_map(|(name, subject)| {
        let implied = prepared.signature.witnesses.iter().filter_map(|witness| match witness.longer {
            Region::Type(parameter) if bounds.is_rooted(name, parameter) => {
                Some((witness.shorter, witness.tokens.clone()))
            }
            _ => None,
        });
        let (by, shorter) = outlives(of, prepared, name, subject, implied.collect())?;
        Some(format!("{name}: {by} + {}", shorter.shown()))
    });
    let anonymous = bounds.anonymous.iter().filter_map(|(zone, subject)| {
        let around = prepared.signature.mentions_in(zone).iter();
        let implied = around.map(|mention| (mention.region, zone.clone())).collect();
        let (by, shorter) = outlives(of, prepared, "impl", subject, implied)?;
        Some(format!("impl {by} + {}", shorter.shown()))
    });
    named.chain(anonymous).next()
}

/// A lifetime that the subject outlives and that what a trait projects it to is believed to.
fn outlives<'a>(
    of: &Crate<'a, '_>,
    prepared: &Prepared<'a, '_>,
    name: &'a str,
    subject: &Subject<'a>,
    implied: Vec<(Region<'a>, Range<usize>)>,
) -> Option<(&'a str, Region<'a>)> {
    let explicit = subject.shorter.iter().map(|shorter| (region(shorter), 0..0));
    explicit.chain(implied).find_map(|(shorter, tokens)| {
        let suffices = |by: &'a str| prepared.bounds.says(region(by), shorter);
        let is_static = is_static(prepared, shorter);
        let by = subject.opened_by(of.traits, is_static, suffices)?;
        let is_kept = is_static || has_sink(of, prepared, name, subject, shorter, &tokens);
        is_kept.then_some((by, shorter))
    })
}

fn region(name: &str) -> Region<'_> {
    if name == "'static" { Region::Static } else { Region::Named(name) }
}

/// The lifetime is `'static`, or a bound or type of the signature says that it is no shorter.
fn is_static(prepared: &Prepared<'_, '_>, shorter: Region<'_>) -> bool {
    shorter == Region::Static
        || matches!(shorter, Region::Named(_)) && prepared.bounds.says(shorter, Region::Static)
        || prepared
            .signature
            .witnesses
            .iter()
            .any(|witness| witness.longer == shorter && witness.shorter == Region::Static)
}

/// A place that names `shorter` and can hold a value of which no type tells.
fn has_sink(
    of: &Crate<'_, '_>,
    prepared: &Prepared<'_, '_>,
    name: &str,
    subject: &Subject<'_>,
    shorter: Region<'_>,
    tokens: &Range<usize>,
) -> bool {
    let run = &prepared.run;
    let mut mentions = prepared.signature.mentions.iter();
    mentions.any(|mention| {
        if mention.region != shorter || tokens.contains(&mention.at) {
            return false;
        }
        let Some((zone, range)) = prepared.zones.iter().find(|(_, range)| range.contains(&mention.at)) else {
            return false;
        };
        let is_place = match zone {
            Zone::Head => false,
            Zone::Output => true,
            // A reference by itself is no place to put something.
            Zone::Input => mention.at > range.start + 1 || !is_reference(run, mention),
            Zone::Bounds => mention.at > range.start && !run.is(mention.at - 1, TokenKind::Plus),
        };
        is_place && can_hold(of, prepared, name, subject, mention, range)
    })
}

fn is_reference(run: &Run<'_, '_>, mention: &Mention<'_>) -> bool {
    run.is(mention.at, TokenKind::And) || (mention.at > 0 && run.is(mention.at - 1, TokenKind::And))
}

/// A trait object or another type that hides what it holds, or a reference where a bound lets
/// something be made of the projection; unless the type names the projection.
fn can_hold(
    of: &Crate<'_, '_>,
    prepared: &Prepared<'_, '_>,
    name: &str,
    subject: &Subject<'_>,
    mention: &Mention<'_>,
    zone: &Range<usize>,
) -> bool {
    let run = &prepared.run;
    let names_projection = |range: Range<usize>| range.into_iter().any(|at| is_projected(run, at, name));
    if is_reference(run, mention) {
        let end = run.type_end(mention.at + 1, zone.end, false);
        return subject.is_used(of.traits) && !names_projection(mention.at..end);
    }
    let object = (zone.start..mention.at).rev().find(|at| {
        let is_object = run.is_keyword(*at, "dyn") || run.is_keyword(*at, "impl");
        is_object && run.type_end(*at + 1, zone.end, true) > mention.at
    });
    let head = (zone.start..mention.at).rev().find(|at| {
        run.is(*at, TokenKind::Lt)
            && run.behind_angles(*at) > mention.at
            && run.word(at.saturating_sub(1)).is_some()
    });
    match (object, head) {
        (Some(object), head) if head.is_none_or(|head| head < object) => {
            !names_projection(object..run.type_end(object + 1, zone.end, true))
        }
        (_, Some(head)) => {
            let word = run.word(head - 1).unwrap_or_default();
            let is_plain = REFERENCES.contains(&word) || of.types.is_plain(word);
            !is_plain || subject.is_used(of.traits)
        }
        (_, None) => true,
    }
}

/// `P::X`, `<P as …>::X`, or the associated type `name` itself, with its name at `at`.
fn is_projected(run: &Run<'_, '_>, at: usize, name: &str) -> bool {
    if run.word(at) != Some(name) {
        return false;
    }
    let is_segment = at >= 2 && run.is_double_colon(at - 2);
    let is_root = run.is_double_colon(at + 1) && run.word(at + 3).is_some();
    let is_qualified = at > 0 && run.is(at - 1, TokenKind::Lt) && run.is_keyword(at + 1, "as");
    is_segment || is_root || is_qualified
}
