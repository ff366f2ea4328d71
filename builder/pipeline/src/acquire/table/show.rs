//! The table as Markdown.

use std::fmt::Write as _;

use super::rows::{Counted, Row, Table};

/// Table, shares, and where the counts differ.
pub(super) fn draw(table: &Table) -> String {
    let mut out = String::from(
        "| crate | version | geiger | tokens | compiler | build script | macro |\n\
         | --- | --- | ---: | ---: | ---: | --- | --- |\n",
    );
    for row in &table.rows {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            row.version,
            count(&row.geiger),
            count(&row.tokens),
            count(&row.compiler),
            yes(row.build_script),
            yes(row.proc_macro)
        );
    }
    shares(&mut out, table);
    differences(&mut out, table);
    unknowns(&mut out, table);
    out
}

fn shares(out: &mut String, table: &Table) {
    out.push('\n');
    let all = table.rows.len();
    let mut count = |what: &str, has: fn(&Row) -> bool| {
        let found = table.rows.iter().filter(|row| has(row)).count();
        // Tenths of a percent, rounded half up.
        let tenths = (found * 1_000 + all / 2).checked_div(all).unwrap_or(0);
        let _ = writeln!(out, "- {what}: {found} of {all} ({}.{} %)", tenths / 10, tenths % 10);
    };
    count("none by all three counts", is_none);
    count("none by geiger", |row| row.geiger == Counted::Number(0));
    count("none by the token scan", |row| row.tokens == Counted::Number(0));
    count("none by the compiler", |row| row.compiler == Counted::Number(0));
    count("none by all three, no build script, no procedural macro", |row| {
        is_none(row) && !row.build_script && !row.proc_macro
    });
    count("some count could not be made", |row| {
        [&row.geiger, &row.tokens, &row.compiler].iter().any(|found| matches!(found, Counted::Unknown(_)))
    });
}

fn is_none(row: &Row) -> bool {
    [&row.geiger, &row.tokens, &row.compiler].iter().all(|found| **found == Counted::Number(0))
}

/// Every crate where geiger says 0 and another count does not.
fn differences(out: &mut String, table: &Table) {
    let _ = writeln!(out, "\ngeiger says 0 and another count does not:\n");
    let differs = |row: &&Row| row.geiger == Counted::Number(0) && !is_none(row);
    for row in table.rows.iter().filter(differs) {
        let (tokens, compiler) = (count(&row.tokens), count(&row.compiler));
        let _ = writeln!(out, "- {} {}: tokens {tokens}, compiler {compiler}", row.name, row.version);
    }
}

fn unknowns(out: &mut String, table: &Table) {
    let _ = writeln!(out, "\nCounts that could not be made:\n");
    for row in &table.rows {
        for (who, found) in [("geiger", &row.geiger), ("tokens", &row.tokens), ("compiler", &row.compiler)] {
            if let Counted::Unknown(reason) = found {
                let _ = writeln!(out, "- {} {}: {who}: {reason}", row.name, row.version);
            }
        }
    }
    for missing in &table.missing {
        let _ = writeln!(out, "- {} is missing: {}", missing.name, missing.reason);
    }
}

fn count(found: &Counted) -> String {
    match found {
        Counted::Number(number) => number.to_string(),
        Counted::Unknown(_) => "unknown".to_owned(),
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "" }
}

#[cfg(test)]
mod tests;
