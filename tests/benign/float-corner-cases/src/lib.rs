//! Floating-point numbers at their edges.
use std::num::FpCategory;

fn category(x: f64) -> &'static str {
    match x.classify() {
        FpCategory::Nan => "nan",
        FpCategory::Infinite => "infinite",
        FpCategory::Zero => "zero",
        FpCategory::Subnormal => "subnormal",
        FpCategory::Normal => "normal",
    }
}

fn describe(x: f64) -> String {
    let short = x as f32;
    format!(
        "{x} {x:e} {x:.3} {x:+} bits {:016x} {}, floor {} ceil {} trunc {} round {}, as f32 {short} again {}, as u8 {}",
        x.to_bits(),
        category(x),
        x.floor(),
        x.ceil(),
        x.trunc(),
        x.round(),
        f64::from(short) == x,
        x as u8
    )
}

fn big(x: f64) -> String {
    // The whole part of 1e300 is long; a reader wants its beginning.
    let digits = format!("{x}");
    format!("{} {x:e} big", &digits[..digits.len().min(106)])
}

fn answer(text: &str) -> Result<String, std::num::ParseFloatError> {
    let mut numbers = text.split(' ').map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
    Ok(match numbers[..] {
        [x] if x.abs() > 1e100 => big(x),
        [x] => describe(x),
        _ => {
            numbers.sort_by(f64::total_cmp);
            let shown: Vec<String> = numbers.iter().map(f64::to_string).collect();
            format!("sorted {}", shown.join(" "))
        }
    })
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error.to_string()).into_bytes()
}
