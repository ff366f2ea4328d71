//! The table that the program prints.

use std::time::Duration;

use crate::bomb::Bomb;
use crate::honest::{EXAMPLES, Times, median};
use crate::run::Ending;

/// The head of the table, in Markdown.
pub const HEAD: &str = "| bomb | ended by | code | stage | CPU s | wall s | peak MiB | builder MiB |\n\
                        | --- | --- | --- | --- | ---: | ---: | ---: | ---: |";

/// One row.
pub fn row(bomb: &Bomb, ending: &Ending) -> String {
    let limit = match &ending.limit {
        Some((name, value)) => format!("`{name}` ({value})"),
        None => "no named limit".to_owned(),
    };
    format!(
        "| {} | {limit} | {} | {} | {} | {} | {} | {} |",
        bomb.name,
        ending.codes.first().map_or("none", String::as_str),
        ending.stage,
        seconds(ending.seen.cpu()),
        seconds(ending.wall),
        ending.seen.peak_bytes >> 20,
        ending.seen.own_peak_bytes >> 20,
    )
}

/// The honest builds.
pub fn honest(times: &[Times]) -> String {
    let mut text = "| honest build | builds | median alone ms | median beside bombs ms | ratio |\n\
                    | --- | ---: | ---: | ---: | ---: |"
        .to_owned();
    for (example, times) in EXAMPLES.iter().zip(times) {
        text.push_str(&format!(
            "\n| {example} | {} + {} | {} | {} | {:.2} |",
            times.alone.len(),
            times.beside.len(),
            median(&times.alone).as_millis(),
            median(&times.beside).as_millis(),
            times.ratio()
        ));
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}
