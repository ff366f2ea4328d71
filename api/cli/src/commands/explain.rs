//! `mfaas explain`: what a code means and what to do about it. Works without a server.
//!
//! The text is the page of docs/errors. Lists of what is allowed and refused are written here from
//! the rules' own rows, so that a page cannot promise something else than the lexer judges.

mod pages;
mod rows;

use mfaas_rules::profiles::lints;
use mfaas_rules::{Code, codes};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Explain a code such as MF0301; without one, list all.
///
/// For example: `mfaas explain MF0301`
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The code.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

impl Explain {
    /// Shows the page, or the titles of all.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.code {
            None => {
                let all: Vec<_> = codes::ALL.iter().copied().map(document).collect();
                context.screen.result(&all, || {
                    let rows: Vec<_> = codes::ALL
                        .iter()
                        .map(|code| vec![code.id().to_owned(), code.title().to_owned()])
                        .collect();
                    table(&["code", "meaning"], &rows)
                })?;
            }
            Some(text) => {
                let code = Code::parse(&text.to_ascii_uppercase()).ok_or_else(|| {
                    Failure::Usage(format!("{text:?} is no code; `mfaas explain` lists them"))
                })?;
                context.screen.result(&whole_document(code), || explanation(code))?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// The page, and the rows behind it.
fn explanation(code: Code) -> String {
    let page = pages::of(code).unwrap_or_default();
    let headline = format!("{}: {}", code.id(), code.title());
    let body = page
        .split_once(code.title())
        .map_or_else(|| format!("**What to do.** {}", code.hint()), |(_, body)| plain(body.trim()));
    let mut text = format!("{headline}\n\n{}\n\nPart of the pipeline: {}.", plain(&body), family(code));
    for list in rows::of(code) {
        text.push_str("\n\n");
        text.push_str(&list.draw());
    }
    text.push_str(&lints_of(code));
    text
}

/// Markdown as a terminal shows it: no emphasis, and links as their text.
fn plain(markdown: &str) -> String {
    markdown.replace("**", "")
}

fn document(code: Code) -> serde_json::Value {
    let mut document = serde_json::json!({
        "code": code.id(), "title": code.title(), "hint": code.hint(), "part": family(code)
    });
    if code == codes::MF0314 {
        let rows = lints::ROWS.iter().map(|row| {
            serde_json::json!({
                "lint": row.id, "issue": row.issue, "why": row.why, "instead": row.instead,
                "refused": row.refused, "admitted": row.admitted
            })
        });
        document["lints"] = rows.collect();
    }
    document
}

/// Every soundness lint with its example, for the code under which they speak.
fn lints_of(code: Code) -> String {
    if code != codes::MF0314 {
        return String::new();
    }
    let indented = |text: &str| text.lines().map(|line| format!("\n      {line}")).collect::<String>();
    lints::ROWS
        .iter()
        .map(|row| {
            format!(
                "\n\n{} (rust-lang/rust#{}): {}\n  = help: {}\n    refused:{}\n    admitted:{}",
                row.id,
                row.issue,
                row.why,
                row.instead,
                indented(row.refused),
                indented(row.admitted)
            )
        })
        .collect()
}

/// The same with the page and the rows.
fn whole_document(code: Code) -> serde_json::Value {
    let mut document = document(code);
    document["page"] = pages::of(code).unwrap_or_default().into();
    document["lists"] = rows::of(code).iter().map(rows::List::document).collect();
    document
}

/// Which part of the pipeline a code belongs to.
fn family(code: Code) -> &'static str {
    match code.family() {
        "01" => "the uploaded archive",
        "02" => "Cargo.toml and dependencies",
        "03" => "the source",
        "04" => "compiling",
        "05" => "the compiled image",
        "06" => "signing and registry",
        "07" => "delivery to nodes",
        "08" => "invocation",
        "09" => "access and limits",
        "10" => "backup",
        "11" => "isolation",
        "12" => "data",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
