//! The pages of docs/errors, as part of the program: `explain` works where there is no checkout.

use mfaas_rules::Code;

macro_rules! pages {
    ($($id:ident)+) => {
        const PAGES: &[(&str, &str)] = &[$((
            stringify!($id),
            include_str!(concat!("../../../../../docs/errors/", stringify!($id), ".md")),
        )),+];
    };
}

mfaas_rules::every_code!(pages);

/// The page of a code, in Markdown.
pub(super) fn of(code: Code) -> Option<&'static str> {
    PAGES.iter().find(|(id, _)| *id == code.id()).map(|(_, page)| *page)
}
