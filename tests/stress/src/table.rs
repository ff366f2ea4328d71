//! The table that the program prints.

use std::time::Duration;

use crate::benign::{EXAMPLES, Times, median};
use crate::input::StressInput;
use crate::run::Ending;

/// The head of the table, in Markdown.
pub const HEAD: &str = "| stress input | ended by | code | stage | CPU s | wall s | peak MiB | builder MiB |\n\
                        | --- | --- | --- | --- | ---: | ---: | ---: | ---: |";

/// One row.
pub fn row(input: &StressInput, ending: &Ending) -> String {
    let limit = match &ending.limit {
        Some((name, value)) => format!("`{name}` ({value})"),
        None => "no named limit".to_owned(),
    };
    format!(
        "| {} | {limit} | {} | {} | {} | {} | {} | {} |",
        input.name,
        ending.codes.first().map_or("none", String::as_str),
        ending.stage,
        seconds(ending.seen.cpu()),
        seconds(ending.wall),
        ending.seen.peak_bytes >> 20,
        ending.seen.own_peak_bytes >> 20,
    )
}

/// The benign builds.
pub fn benign(times: &[Times]) -> String {
    let mut text = "| benign build | builds | median alone ms | median beside stress inputs ms | ratio |\n\
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
