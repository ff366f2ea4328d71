//! `mfaas explain`: what a code means and what to do about it. Works without a server.

mod pages;

use mfaas_rules::{Code, codes};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Explain a code such as MF0301; without one, list all.
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The code.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

impl Explain {
    /// Shows the row, or all of them.
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
                context.screen.result(&document(code), || {
                    let more = pages::more(code.id()).map(|more| format!("\n\n{more}"));
                    format!(
                        "{}: {}\n  = help: {}\n  = part: {}{}",
                        code.id(),
                        code.title(),
                        code.hint(),
                        family(code),
                        more.unwrap_or_default()
                    )
                })?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn document(code: Code) -> serde_json::Value {
    serde_json::json!({
        "code": code.id(),
        "title": code.title(),
        "hint": code.hint(),
        "part": family(code),
        "more": pages::more(code.id()),
    })
}

/// Which part of the road a code belongs to.
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
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
