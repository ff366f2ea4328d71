//! Sums the halves of a list, one after the other.
fn sum(numbers: &[u64]) -> u64 {
    let (left, right) = numbers.split_at(numbers.len() / 2);
    [left, right].map(|half| half.iter().sum::<u64>()).iter().sum()
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) => sum(&numbers).to_string().into_bytes(),
        Err(error) => error.to_string().into_bytes(),
    }
}
