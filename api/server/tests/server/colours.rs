//! Every colour of text has the contrast that WCAG 2.2 asks for at level AA, on every ground that it stands on, light
//! and dark.

use std::collections::BTreeMap;

const CSS: &str = include_str!("../../../../web/static/console.css");
/// Success criterion 1.4.3: text of usual size.
const CONTRAST_MIN: f64 = 4.5;
/// Grounds that source text stands on: a panel, a line that holds a hotspot, lines that came and that went.
const BACKGROUNDS: [&str; 4] = ["panel", "code", "added", "removed"];

/// The variables of the style sheet: light and dark.
fn colours() -> BTreeMap<&'static str, [[u8; 3]; 2]> {
    let mut found = BTreeMap::new();
    for line in CSS.lines().map(str::trim) {
        let Some((name, rest)) = line.strip_prefix("--").and_then(|line| line.split_once(": light-dark("))
        else {
            continue;
        };
        let (light, rest) = rest.split_once(", ").unwrap();
        let (dark, _) = rest.split_once(')').unwrap();
        found.insert(name, [rgb(light), rgb(dark)]);
    }
    found
}

fn rgb(text: &str) -> [u8; 3] {
    let number = u32::from_str_radix(text.strip_prefix('#').unwrap(), 16).unwrap();
    let [_, r, g, b] = number.to_be_bytes();
    [r, g, b]
}

/// Relative luminance, as WCAG defines it.
fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// The variables that classes of source are drawn with.
fn of_classes() -> Vec<&'static str> {
    let rules = CSS.lines().filter(|line| line.starts_with(".t-"));
    rules.map(|rule| rule.split_once("color: var(--").unwrap().1.split_once(')').unwrap().0).collect()
}

#[test]
fn the_formula_is_that_of_the_standard() {
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    assert!((contrast([0x77; 3], [255; 3]) - 4.478).abs() < 1e-3, "the well-known grey that just fails");
}

#[test]
fn every_class_of_source_can_be_read_on_every_ground() {
    let (colours, mut texts) = (colours(), of_classes());
    assert!(texts.len() >= 10, "{texts:?}");
    texts.extend(["ink", "quiet", "link", "bad"]);
    let mut low = Vec::new();
    for text in texts {
        for ground in BACKGROUNDS {
            for (mode, name) in ["light", "dark"].iter().enumerate() {
                let found = contrast(colours[text][mode], colours[ground][mode]);
                if found < CONTRAST_MIN {
                    low.push(format!("{text} on {ground}, {name}: {found:.2}"));
                }
            }
        }
    }
    assert!(low.is_empty(), "{}", low.join("\n"));
}

#[test]
fn states_can_be_read_on_pages_and_panels() {
    let colours = colours();
    for text in ["ink", "quiet", "link", "good", "bad", "wait"] {
        for ground in ["ground", "panel"] {
            for (ink, ground_ink) in colours[text].into_iter().zip(colours[ground]) {
                let found = contrast(ink, ground_ink);
                assert!(found >= CONTRAST_MIN, "{text} on {ground}: {found:.2}");
            }
        }
    }
}

/// Success criterion 1.4.11: what is drawn, on the panel of a chart.
#[test]
fn every_colour_of_a_chart_is_seen_on_its_panel() {
    let colours = colours();
    let series: Vec<_> = colours.iter().filter(|(name, _)| name.starts_with("series-")).collect();
    assert_eq!(series.len(), 6);
    for (name, pair) in series {
        for (colour, panel) in pair.iter().zip(colours["panel"]) {
            let found = contrast(*colour, panel);
            assert!(found >= 3.0, "{name} has {found:.2} to 1");
        }
    }
}
