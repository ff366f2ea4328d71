//! A command interpreter in the idiom of edition 2024.
fn set(name: &str, value: &str) -> String {
    if let Some(first) = name.chars().next()
        && first.is_alphabetic()
        && let Ok(value) = value.parse::<i64>()
        && let size @ 0..=999 = value.abs()
    {
        let note = if value < 0 && size > 0 { " (negative)" } else { "" };
        return format!("{name} = {value}{note}");
    }
    let reason = 'reason: {
        let Some('a'..='z' | 'A'..='Z') = name.chars().next() else {
            break 'reason format!("not a name: {name}");
        };
        if value.parse::<i64>().is_err() {
            break 'reason format!("not a number: {value}");
        }
        format!("{name} is too large")
    };
    reason
}

fn add(words: &[&str]) -> Result<String, String> {
    let numbers: Vec<i64> = words
        .iter()
        .map(|word| word.parse().map_err(|_| format!("not a number: {word}")))
        .collect::<Result<_, _>>()?;
    Ok(match &numbers[..] {
        [] => return Err("nothing to add".into()),
        [one] => format!("{one} alone"),
        [first, inner @ .., last] => {
            let sum = first + last + inner.iter().sum::<i64>();
            format!("{first} and {last} around {} numbers: {sum}", inner.len())
        }
    })
}

fn answer(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["set", name, value] => Ok(set(name, value)),
        ["add", rest @ ..] => add(rest),
        [command @ ("fly" | "run"), rest @ ..] if !rest.is_empty() => {
            Err(format!("{command} takes no words, and there are {}", rest.len()))
        }
        [] | [..] => Err("set, add, fly or run".into()),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match answer(&String::from_utf8_lossy(request)) {
        Ok(text) | Err(text) => text.into_bytes(),
    }
}
