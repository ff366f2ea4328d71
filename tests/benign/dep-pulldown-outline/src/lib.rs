//! A table of contents and the links of a Markdown text.
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use std::collections::HashMap;

#[derive(Default)]
struct Outline {
    headings: Vec<(usize, String)>,
    links: Vec<String>,
}

fn level(level: HeadingLevel) -> usize {
    level as usize
}

fn read(text: &str) -> Outline {
    let mut outline = Outline::default();
    let mut open: Option<(usize, String)> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { level: l, .. }) => open = Some((level(l), String::new())),
            Event::End(TagEnd::Heading(_)) => outline.headings.extend(open.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, title)) = &mut open {
                    title.push_str(&text);
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => outline.links.push(dest_url.into_string()),
            _ => {}
        }
    }
    outline
}

fn slug(title: &str, seen: &mut HashMap<String, usize>) -> String {
    let slug: String = title
        .split(|c: char| !c.is_alphanumeric())
        .filter(|part| !part.is_empty())
        .map(str::to_lowercase)
        .collect::<Vec<_>>()
        .join("-");
    let n = seen.entry(slug.clone()).or_default();
    *n += 1;
    if *n == 1 { slug } else { format!("{slug}-{}", *n - 1) }
}

fn answer(text: &str) -> Result<String, String> {
    let Outline { headings, links } = read(text);
    if let Some((first @ 2.., _)) = headings.first() {
        return Err(format!("the outline begins at level {first}\n"));
    }
    let mut seen = HashMap::new();
    let mut out = String::new();
    for (level, title) in &headings {
        out += &format!("{}- {title} (#{})\n", "  ".repeat(level - 1), slug(title, &mut seen));
    }
    Ok(out + &format!("{} links: {}\n", links.len(), links.join(", ")))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
