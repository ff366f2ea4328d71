//! Headers merged whatever their case.
use mfaas::{Request, Response};
use std::collections::HashMap;
use unicase::UniCase;

fn merge(text: &str) -> Result<Vec<(&str, Vec<&str>)>, usize> {
    let mut order: Vec<UniCase<&str>> = Vec::new();
    let mut values: HashMap<UniCase<&str>, Vec<&str>> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let (name, value) = line.split_once(':').ok_or(number + 1)?;
        let name = UniCase::new(name);
        values
            .entry(name)
            .or_insert_with(|| {
                order.push(name);
                Vec::new()
            })
            .push(value.trim());
    }
    Ok(order.into_iter().map(|name| (name.into_inner(), values.remove(&name).unwrap_or_default())).collect())
}

pub fn handle(request: Request) -> Response {
    let text = match request.text() {
        Ok(text) => text,
        Err(error) => return Response::text(format!("{error}\n")).with_status(400),
    };
    match merge(text) {
        Err(line) => Response::text(format!("line {line} has no colon\n")).with_status(400),
        Ok(merged) if merged.is_empty() => Response::text("nothing to merge\n").with_status(422),
        Ok(merged) => {
            let lines = merged.iter().map(|(name, values)| format!("{name} = {}\n", values.join(", ")));
            Response::text(lines.collect::<String>()).with_header("x-count", &merged.len().to_string())
        }
    }
}
