//! The keys of a JSON document in another style, however deep they lie.
use convert_case::{Case, Casing};
use serde_json::{Map, Value};

fn rename(value: Value, style: Case<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::Object(map) => {
            let mut renamed = Map::new();
            for (key, value) in map {
                let key = key.to_case(style);
                let value = rename(value, style)?;
                if renamed.insert(key.clone(), value).is_some() {
                    return Err(format!("two keys become {key}"));
                }
            }
            Value::Object(renamed)
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| rename(item, style)).collect::<Result<_, _>>()?)
        }
        plain => plain,
    })
}

fn style(name: &str) -> Result<Case<'static>, String> {
    [("snake", Case::Snake), ("camel", Case::Camel), ("kebab", Case::Kebab), ("pascal", Case::Pascal)]
        .into_iter()
        .find_map(|(known, case)| (known == name).then_some(case))
        .ok_or_else(|| format!("unknown style {name}"))
}

fn answer(request: &[u8]) -> Result<String, String> {
    let mut document: Value = serde_json::from_slice(request).map_err(|e| e.to_string())?;
    let style = style(document["to"].as_str().ok_or("no style")?)?;
    rename(document["value"].take(), style).map(|value| value.to_string())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(request).unwrap_or_else(|error| error).into_bytes()
}
