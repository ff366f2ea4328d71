//! Renders a Markdown file as a complete HTML page.
//!
//! Raw HTML in the input is shown as text, so that a page never holds more markup than its
//! Markdown does.
//!
//! ```console
//! $ mfaas invoke markdown --data '# Tea'
//! <!doctype html>
//! <html lang="en">
//! <head><meta charset="utf-8"><title>Tea</title></head>
//! <body>
//! <h1>Tea</h1>
//! </body>
//! </html>
//! ```

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// Takes Markdown, answers a page whose title is the first heading.
pub fn render(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let events: Vec<Event<'_>> = Parser::new_ext(&text, options).map(without_markup).collect();
    let mut body = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut body, events.iter().cloned());
    let title = escape(&first_heading(&events).unwrap_or_else(|| "Untitled".to_owned()));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body>\n{body}</body>\n</html>\n"
    )
    .into_bytes()
}

/// Raw HTML becomes text, which the renderer escapes.
fn without_markup(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(markup) | Event::InlineHtml(markup) => Event::Text(markup),
        other => other,
    }
}

/// The words of the first heading of the first level.
fn first_heading(events: &[Event<'_>]) -> Option<String> {
    let start = events
        .iter()
        .position(|event| matches!(event, Event::Start(Tag::Heading { level: HeadingLevel::H1, .. })))?;
    let words = events[start..]
        .iter()
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))))
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(CowStr::as_ref(text)),
            _ => None,
        });
    Some(words.collect())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn renders_a_page_with_its_title_and_without_foreign_markup() {
        let page = String::from_utf8(render(b"# A & `b`\n\n* one\n\n<script>alert(1)</script>\n")).unwrap();
        assert!(page.contains("<title>A &amp; b</title>"));
        assert!(page.contains("<li>one</li>"));
        assert!(page.contains("&lt;script&gt;"));
        assert!(!page.contains("<script>"));
    }
}
