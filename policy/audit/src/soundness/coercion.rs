//! `pin!` where a type is expected of it.
//!
//! Its expansion takes a reference to the pinned value; where `Pin<&mut T>` is expected, that
//! reference may be coerced through `Deref`, and what is pinned is not what the macro holds
//! (rust-lang/rust#153438). Nothing is expected of the value of a plain `let` and of a method's
//! receiver.

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::findings::Findings;
use super::krate::Crate;
use super::run::Run;

/// Looks at every block that begins with `super let`, which std's macros alone can write.
pub(super) fn pins(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) {
    let run = of.run;
    for at in (0..run.len()).filter(|at| run.is_keyword(*at, "super") && run.is_keyword(at + 1, "let")) {
        let open = at.saturating_sub(1);
        if !run.is(open, TokenKind::OpenBrace) || is_expected(run, open) {
            let detail = "a type is expected of the pinned reference".to_owned();
            found.add(SoundnessShape::PinWhereExpected, "", "pin", detail);
        }
    }
}

/// All but `let name = {…};` and `{…}.method`.
fn is_expected(run: &Run<'_, '_>, open: usize) -> bool {
    let behind = run.behind_group(open);
    if run.is(behind, TokenKind::Dot) {
        return false;
    }
    let is_name = |at: usize| run.word(at).is_some();
    let has_let = |at: usize| {
        run.is_keyword(at, "let") || (run.is_keyword(at, "mut") && at > 0 && run.is_keyword(at - 1, "let"))
    };
    let is_plain_let = open >= 3
        && run.is(open - 1, TokenKind::Eq)
        && is_name(open - 2)
        && has_let(open - 3)
        && run.is(behind, TokenKind::Semi);
    !is_plain_let
}
