#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use askama::Template as _;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::figure::{Figure, Table, Titled};
use super::{ChartsPage, Frame};
use crate::console::chart::{Axis, Drawing, Key, Numbers, Unit, lines};

/// What names and numbers never hold, and a chart must not be the place where that is found out.
const HOSTILE: [&str; 6] = [
    "</text><script>alert(1)</script>",
    "\"><path onload=\"alert(2)\" d=\"",
    "]]></svg><img src=x onerror=alert(3)>",
    "<foreignObject><iframe srcdoc='<script>alert(4)</script>'>",
    "url(javascript:alert(5))",
    "a & b &lt; c",
];

fn page(hostile: &str) -> String {
    let at = ["2026-11-25T12:00:00Z", "2026-11-25T12:01:00Z"].map(|text| text.parse().unwrap());
    let axis = Axis { at: at.into(), step_s: 60 };
    let numbers = Numbers { label: hostile.to_owned(), values: vec![Some(1.0), None] };
    let mut drawing: Drawing = lines(&axis, &[numbers], Unit::Count);
    drawing.keys.push(Key { class: "s2".to_owned(), label: hostile.to_owned() });
    drawing.y_ticks[0].label = hostile.to_owned();
    let table = Table { head: vec![hostile.to_owned()], rows: vec![vec![hostile.to_owned(); 2]] };
    let figure = Figure {
        id: "x".to_owned(),
        title: hostile.to_owned(),
        drawings: vec![Titled { title: "Chart", drawing }],
        table,
    };
    let frame = Frame { user: None, here: "charts", server_version: "0", nonce: "n".to_owned() };
    let page = ChartsPage {
        frame,
        heading: hostile.to_owned(),
        of: hostile.to_owned(),
        views: Vec::new(),
        spans: Vec::new(),
        span: hostile.to_owned(),
        figures: vec![figure],
        empty: "",
        notes: vec![hostile.to_owned()],
    };
    page.render().unwrap()
}

#[test]
fn hostile_words_are_text_in_a_drawing_that_stays_well_formed() {
    let tags = |page: &str| page.matches('<').count();
    let harmless = tags(&page("harmless"));
    for hostile in HOSTILE {
        let page = page(hostile);
        assert_eq!(tags(&page), harmless, "{hostile} makes elements: {page}");
        let drawing = &page[page.find("<svg role").unwrap()..page.find("</svg>").unwrap() + "</svg>".len()];
        let (mut reader, mut texts) = (Reader::from_str(drawing), String::new());
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error}: {drawing}")) {
                Event::Eof => break,
                Event::Text(text) => texts.push_str(&text.decode().unwrap()),
                Event::GeneralRef(reference) => {
                    let code: u32 =
                        std::str::from_utf8(&reference).unwrap().trim_start_matches('#').parse().unwrap();
                    texts.push(char::from_u32(code).unwrap());
                }
                _ => {}
            }
        }
        assert!(texts.matches(hostile).count() >= 3, "title, description and label say {hostile}: {texts}");
    }
}
