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

// A test fails for a code that is missing here.
pages! {
    MF0101 MF0102 MF0103 MF0104 MF0105 MF0106 MF0107 MF0108 MF0109
    MF0201 MF0202 MF0203 MF0204 MF0205 MF0206 MF0207 MF0209 MF0210
    MF0301 MF0302 MF0303 MF0304 MF0305 MF0306 MF0307 MF0308 MF0309 MF0310 MF0311 MF0312 MF0313
    MF0314
    MF0401 MF0402 MF0403 MF0404 MF0405 MF0406 MF0407 MF0408 MF0409 MF0410
    MF0411 MF0412 MF0413
    MF0501 MF0502 MF0503 MF0504 MF0505 MF0506 MF0507 MF0508 MF0509 MF0510
    MF0601 MF0602 MF0603 MF0604 MF0605 MF0606 MF0607
    MF0701 MF0702 MF0703 MF0704 MF0705 MF0706 MF0707 MF0708 MF0709 MF0710 MF0711 MF0712 MF0713 MF0714 MF0715
    MF0716 MF0717 MF0718
    MF0801 MF0802 MF0803 MF0804 MF0805 MF0806 MF0807 MF0808 MF0809 MF0810 MF0811 MF0812 MF0813
    MF0814 MF0815 MF0816 MF0817 MF0818
    MF0820 MF0821 MF0822 MF0823 MF0824
    MF0901 MF0902 MF0903 MF0904 MF0905 MF0906 MF0907 MF0908 MF0909 MF0910 MF0911 MF0912
    MF0913 MF0914 MF0915 MF0916 MF0917
}

/// The page of a code, in Markdown.
pub(super) fn of(code: Code) -> Option<&'static str> {
    PAGES.iter().find(|(id, _)| *id == code.id()).map(|(_, page)| *page)
}
