//! RSS and Atom feeds as lists.
use roxmltree::{Document, Node};
use std::fmt::Write;

const ATOM: &str = "http://www.w3.org/2005/Atom";

struct Entry<'a> {
    title: &'a str,
    link: Option<&'a str>,
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.tag_name().name() == name)
}

fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name)?.text()
}

fn entry<'a>(node: Node<'a, '_>) -> Entry<'a> {
    let link = child(node, "link").and_then(|link| link.attribute("href").or_else(|| link.text()));
    Entry { title: text(node, "title").unwrap_or("(untitled)"), link }
}

fn read<'a>(document: &'a Document<'_>) -> Result<(&'a str, Vec<Entry<'a>>), String> {
    let root = document.root_element();
    let (channel, item) = match (root.tag_name().namespace(), root.tag_name().name()) {
        (None, "rss") => (child(root, "channel").ok_or("the feed has no channel")?, "item"),
        (Some(ATOM), "feed") => (root, "entry"),
        (_, other) => return Err(format!("a feed of kind {other} is not known")),
    };
    let entries = channel.children().filter(|node| node.has_tag_name((root.tag_name().namespace().unwrap_or(""), item)) || node.tag_name().name() == item);
    Ok((text(channel, "title").unwrap_or("(untitled)"), entries.map(entry).collect()))
}

fn answer(xml: &str) -> Result<String, String> {
    let document = Document::parse(xml).map_err(|error| {
        let at = error.pos();
        format!("not XML at {}:{}", at.row, at.col)
    })?;
    let (title, entries) = read(&document)?;
    let mut out = String::new();
    writeln!(out, "{title}: {} items", entries.len()).map_err(|e| e.to_string())?;
    for Entry { title, link } in &entries {
        match link {
            Some(link) => writeln!(out, "- {title} <{link}>"),
            None => writeln!(out, "- {title}"),
        }
        .map_err(|e| e.to_string())?;
    }
    Ok(out)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let xml = String::from_utf8_lossy(request);
    answer(&xml).unwrap_or_else(|error| error + "\n").into_bytes()
}
