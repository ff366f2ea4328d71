//! The pages of docs/errors, built in: `mfaas explain` works without a server and without a network.
//!
//! Must never say something else than the page; a test finds a code without one.

macro_rules! pages {
    ($($code:ident)+) => {
        /// Each code's page, as Markdown.
        const PAGES: &[(&str, &str)] = &[$((
            stringify!($code),
            include_str!(concat!("../../../../../docs/errors/", stringify!($code), ".md")),
        )),+];
    };
}

pages! {
    MF0101 MF0102 MF0103 MF0104 MF0105 MF0106 MF0107 MF0108 MF0109
    MF0201 MF0202 MF0203 MF0204 MF0205 MF0206 MF0207 MF0209
    MF0301 MF0302 MF0303 MF0304 MF0305 MF0306 MF0307 MF0308 MF0309 MF0310 MF0311 MF0312
    MF0313 MF0314
    MF0401 MF0402 MF0403 MF0404 MF0405 MF0406 MF0407 MF0408 MF0409 MF0410
    MF0501 MF0502 MF0503 MF0504 MF0505 MF0506 MF0507 MF0508 MF0509 MF0510
    MF0601 MF0602 MF0603 MF0604 MF0605 MF0606 MF0607
    MF0701 MF0702 MF0703 MF0704 MF0705 MF0706 MF0707 MF0708 MF0709 MF0710
    MF0801 MF0802 MF0803 MF0804 MF0805 MF0806 MF0807 MF0808 MF0809 MF0810 MF0811 MF0812
    MF0813 MF0814
    MF0901 MF0902 MF0903 MF0904 MF0905 MF0906 MF0907 MF0908 MF0909 MF0910 MF0911 MF0912
}

/// What a page says beyond the sentence, the hint and who found it; `None` where that is all.
pub(super) fn more(code: &str) -> Option<&'static str> {
    let (_, page) = PAGES.iter().find(|(known, _)| *known == code)?;
    let (_, rest) = page.split_once("**Who says so.**")?;
    let (_, more) = rest.split_once("\n\n")?;
    Some(more.trim()).filter(|more| !more.is_empty())
}

/// Whether a page is built in.
#[cfg(test)]
pub(super) fn has(code: &str) -> bool {
    PAGES.iter().any(|(known, _)| *known == code)
}
