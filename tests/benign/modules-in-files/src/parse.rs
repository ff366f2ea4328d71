//! `3 m in cm`.
use crate::units::{Error, Unit, by_name};

pub(crate) struct Question {
    pub(crate) value: f64,
    pub(crate) from: Unit,
    pub(crate) to: Unit,
}

pub(crate) fn question(text: &str) -> Result<Question, Error<'_>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [value, from, "in", to] = words[..] else { return Err(Error::Form) };
    Ok(Question {
        value: value.parse().map_err(|_| Error::Number(value))?,
        from: by_name(from)?,
        to: by_name(to)?,
    })
}
