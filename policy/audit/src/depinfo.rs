//! The list of files and variables that the compiler read (`--emit=dep-info`).
//!
//! It is written by the compiler after expansion, so it shows what no filter over the source
//! can: an `include!` that a macro put together, a `#[path]`, an `env!`.

use mfaas_rules::facts::DepInfoFacts;

/// Size of a list; a function has a few dozen files.
const BYTES_MAX: usize = 4 << 20;
/// What rustc writes before a variable: `# env-dep:NAME=value`.
const VARIABLE: &str = "# env-dep:";

/// Reads a list in the form that rustc writes for `make`: rules `target: file file`, one rule
/// without files for each file, and comments for variables.
pub fn read(bytes: &[u8]) -> DepInfoFacts {
    parse(bytes)
        .unwrap_or_else(|reason| DepInfoFacts { unreadable: Some(reason.to_owned()), ..Default::default() })
}

fn parse(bytes: &[u8]) -> Result<DepInfoFacts, &'static str> {
    if bytes.len() > BYTES_MAX {
        return Err("it is larger than 4 MiB");
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let mut facts = DepInfoFacts::default();
    let mut rules = 0;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(variable) = line.strip_prefix(VARIABLE) {
            // The name ends at the first `=`; a variable that was asked for and not set has none.
            let name = variable.split('=').next().unwrap_or(variable);
            facts.variables.push(name.to_owned());
        } else if line.starts_with('#') {
            // Other comments carry checksums in toolchains that we do not use.
            return Err("it has a comment of an unknown kind");
        } else {
            rules += 1;
            let words = words(line)?;
            let colon =
                words.iter().position(|(_, ends_target)| *ends_target).ok_or("a rule has no target")?;
            facts.files.extend(words.into_iter().skip(colon + 1).map(|(word, _)| word));
        }
    }
    if rules == 0 {
        return Err("it has no rules");
    }
    facts.files.sort();
    facts.files.dedup();
    Ok(facts)
}

/// The words of a rule; the flag marks the target, whose `:` is cut off. rustc writes a space
/// within a name as `\ ` and nothing else in a special way.
fn words(line: &str) -> Result<Vec<(String, bool)>, &'static str> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut seen_target = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.peek() == Some(&' ') => {
                characters.next();
                word.push(' ');
            }
            ' ' => finish(&mut words, &mut word, false),
            ':' if !seen_target && matches!(characters.peek(), None | Some(' ')) => {
                seen_target = true;
                if word.is_empty() {
                    return Err("a rule has an empty target");
                }
                finish(&mut words, &mut word, true);
            }
            c if c.is_control() => return Err("it has control characters"),
            c => word.push(c),
        }
    }
    finish(&mut words, &mut word, false);
    Ok(words)
}

fn finish(words: &mut Vec<(String, bool)>, word: &mut String, ends_target: bool) {
    if !word.is_empty() {
        words.push((std::mem::take(word), ends_target));
    }
}
