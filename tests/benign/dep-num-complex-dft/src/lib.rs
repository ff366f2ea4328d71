//! A radix-2 Fourier transform and its inverse.
use num_complex::Complex64;
use std::f64::consts::TAU;

fn fft(input: &[Complex64], sign: f64) -> Vec<Complex64> {
    if let [one] = input {
        return vec![*one];
    }
    let part = |offset: usize| {
        let half: Vec<Complex64> = input.iter().skip(offset).step_by(2).copied().collect();
        fft(&half, sign)
    };
    let (even, odd) = (part(0), part(1));
    let n = input.len();
    let twiddled: Vec<Complex64> = odd
        .iter()
        .enumerate()
        .map(|(k, x)| Complex64::from_polar(1.0, sign * TAU * k as f64 / n as f64) * x)
        .collect();
    let lower = even.iter().zip(&twiddled).map(|(e, t)| e + t);
    let upper = even.iter().zip(&twiddled).map(|(e, t)| e - t);
    lower.chain(upper).collect()
}

/// Minus zero and rounding noise are zero to a reader.
fn plain(x: f64) -> f64 {
    if x.abs() < 0.005 { 0.0 } else { x }
}

fn show(z: &Complex64) -> String {
    let (re, im) = (plain(z.re), plain(z.im));
    if im == 0.0 { format!("{re:.2}") } else { format!("{re:.2}{im:+.2}i") }
}

fn line(name: &str, values: &[Complex64]) -> String {
    format!("{name} {}\n", values.iter().map(show).collect::<Vec<_>>().join(" "))
}

fn answer(text: &str) -> Result<String, String> {
    let signal = text
        .split_whitespace()
        .map(|word| word.parse().map(|re: f64| Complex64::new(re, 0.0)).map_err(|_| format!("not a number: {word}\n")))
        .collect::<Result<Vec<_>, _>>()?;
    if !signal.len().is_power_of_two() {
        return Err(format!("{} is not a power of two\n", signal.len()));
    }
    let spectrum = fft(&signal, -1.0);
    let scale = signal.len() as f64;
    let back: Vec<Complex64> = fft(&spectrum, 1.0).into_iter().map(|z| z / scale).collect();
    Ok(line("dft", &spectrum) + &line("back", &back))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
