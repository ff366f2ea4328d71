//! Small errors, wrapped on the way up and told with their causes.
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::num::ParseIntError;

#[derive(Debug)]
enum Fault {
    Unset(String),
    Overflow { sum: u32 },
    Number(ParseIntError),
    Unknown(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset(name) => write!(f, "{name} is not set"),
            Self::Overflow { .. } => f.write_str("overflow"),
            Self::Number(error) => error.fmt(f),
            Self::Unknown(word) => write!(f, "what is {word}?"),
        }
    }
}

impl Error for Fault {}

impl From<ParseIntError> for Fault {
    fn from(error: ParseIntError) -> Self {
        Self::Number(error)
    }
}

#[derive(Debug)]
struct At {
    line: usize,
    doing: Option<String>,
    source: Fault,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.doing {
            Some(doing) => write!(f, "line {}: cannot {doing}", self.line),
            None => write!(f, "line {}: {}", self.line, self.source),
        }
    }
}

impl Error for At {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.doing.as_ref().map(|_| &self.source as _)
    }
}

type Values = HashMap<String, u8>;

fn get(values: &Values, name: &str) -> Result<u8, Fault> {
    values.get(name).copied().ok_or_else(|| Fault::Unset(name.to_owned()))
}

fn sum(values: &Values, names: &str) -> Result<u8, Fault> {
    let sum = names.split(' ').try_fold(0, |sum, name| Ok::<u32, Fault>(sum + u32::from(get(values, name)?)))?;
    u8::try_from(sum).map_err(|_| Fault::Overflow { sum })
}

fn run(text: &str) -> Result<u8, Box<dyn Error + Send + Sync>> {
    let mut values = Values::new();
    for (index, line) in text.lines().enumerate() {
        let at = |doing: Option<String>| move |source| At { line: index + 1, doing, source };
        if let Some(names) = line.strip_prefix("sum ") {
            return Ok(sum(&values, names).map_err(at(Some("add".to_owned())))?);
        }
        let (name, value) = line.split_once('=').ok_or_else(|| at(None)(Fault::Unknown(line.to_owned())))?;
        let value = value.parse().map_err(Fault::from).map_err(at(Some(format!("set {name}"))))?;
        values.insert(name.to_owned(), value);
    }
    Err("nothing was asked")?
}

fn tell(error: &(dyn Error + 'static)) -> String {
    let mut out = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        out += &format!("\n  because: {inner}");
        if let Some(Fault::Overflow { sum }) = inner.downcast_ref() {
            out += &format!("\n  (the sum was {sum})");
        }
        cause = inner.source();
    }
    out
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match run(&String::from_utf8_lossy(request)) {
        Ok(value) => value.to_string().into_bytes(),
        Err(error) => tell(&*error).into_bytes(),
    }
}
