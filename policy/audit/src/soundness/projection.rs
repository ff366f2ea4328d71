//! Impls whose header is a projection: `impl Trait for <X as Other>::Name`.
//!
//! What such a header implies is believed before the projection is resolved and forgotten after
//! (rust-lang/rust#100051), and coherence does not see that it may be a trait object
//! (rust-lang/rust#152783).

use std::ops::Range;

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::findings::Findings;
use super::krate::Crate;
use super::run::Run;

/// Looks at every impl's self type.
pub(super) fn impls(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) -> Result<(), String> {
    for owner in &of.items.impls {
        let written = write_out(of, &owner.self_type)
            .ok_or_else(|| "the header of an impl is too long to be read".to_owned())?;
        if is_projection(&written) && !owner.of_trait.is_empty() {
            let name = owner.of_trait.clone().filter_map(|at| of.run.word(at)).next().unwrap_or_default();
            let detail = "the type that it is for is a projection".to_owned();
            found.add(SoundnessShape::ProjectionInHeader, "impl", name, detail);
        }
    }
    Ok(())
}

fn write_out<'a, 'b>(of: &Crate<'a, 'b>, range: &Range<usize>) -> Option<Run<'a, 'b>> {
    let tokens = of.aliases.write_out(of.run.tokens[range.clone()].to_vec(), &[], of.run)?;
    Some(Run::new(tokens, of.run.budget()))
}

/// The whole type is `<…>::Name`, perhaps in brackets.
fn is_projection(run: &Run<'_, '_>) -> bool {
    let at = (0..run.len()).find(|at| !run.is(*at, TokenKind::OpenParen)).unwrap_or(0);
    run.is(at, TokenKind::Lt) && run.is_double_colon(run.behind_angles(at))
}
