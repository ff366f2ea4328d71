//! Letters for narrow screens.
use std::borrow::Cow;
use textwrap::{Options, WrapAlgorithm, dedent, wrap};

fn quoted(text: &str, width: usize) -> String {
    let options = Options::new(width)
        .initial_indent("> ")
        .subsequent_indent("> ")
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(false);
    wrap(text, options).into_iter().map(|line| line.into_owned() + "\n").collect()
}

fn shorten(text: &str, width: usize) -> Cow<'_, str> {
    match text.char_indices().nth(width) {
        None => Cow::Borrowed(text),
        Some((at, _)) => Cow::Owned(format!("{} [+{}]", &text[..at], text[at..].chars().count())),
    }
}

fn answer(request: &str) -> Result<String, String> {
    if let Some(block) = request.strip_prefix("dedent\n") {
        return Ok(dedent(block) + "\n");
    }
    let mut parts = request.splitn(3, ' ');
    let (Some(command), Some(width), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("COMMAND WIDTH TEXT".to_owned());
    };
    let width = width.parse().map_err(|_| format!("not a width: {width}"))?;
    match command {
        "wrap" => Ok(quoted(text, width)),
        "shorten" => Ok(shorten(text, width).into_owned() + "\n"),
        other => Err(format!("unknown command {other}")),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error + "\n").into_bytes()
}
