//! Sums the halves of a list side by side.
fn sum(numbers: &[u64]) -> u64 {
    let (left, right) = numbers.split_at(numbers.len() / 2);
    std::thread::scope(|scope| {
        let left = scope.spawn(|| left.iter().sum::<u64>());
        right.iter().sum::<u64>() + left.join().unwrap_or(0)
    })
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) => sum(&numbers).to_string().into_bytes(),
        Err(error) => error.to_string().into_bytes(),
    }
}
