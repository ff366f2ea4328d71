//! Durations and instants as people write them. No clock is asked: instants come with the request.
use humantime::{format_duration, format_rfc3339, parse_duration, parse_rfc3339};
use std::error::Error;
use std::time::{Duration, UNIX_EPOCH};

fn total(text: &str) -> Result<Duration, Box<dyn Error>> {
    text.split('+').map(str::trim).try_fold(Duration::ZERO, |sum, part| {
        let part = parse_duration(part).map_err(|error| -> Box<dyn Error> {
            // The crate lists every unit it knows; the first clause says enough.
            error.to_string().split(',').next().unwrap_or_default().into()
        })?;
        sum.checked_add(part).ok_or_else(|| "too long".into())
    })
}

fn answer(line: &str) -> Result<String, Box<dyn Error>> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    match command {
        "sum" => {
            let total = total(rest)?;
            Ok(format!("{} = {} s", format_duration(total), total.as_secs()))
        }
        "stamp" => Ok(format_rfc3339(UNIX_EPOCH + Duration::from_secs(rest.parse()?)).to_string()),
        "since" => {
            let after = parse_rfc3339(rest)?.duration_since(UNIX_EPOCH)?;
            Ok(format!("{} s after the epoch", after.as_secs()))
        }
        _ => Err("sum, stamp or since".into()),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error.to_string()).into_bytes()
}
