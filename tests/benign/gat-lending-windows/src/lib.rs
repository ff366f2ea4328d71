//! An iterator that lends: each window is a mutable view that ends before the next begins.
trait LendingIterator {
    type Item<'a>
    where
        Self: 'a;

    fn next(&mut self) -> Option<Self::Item<'_>>;

    fn advance_by(&mut self, n: usize) -> usize {
        (0..n).take_while(|_| self.next().is_some()).count()
    }
}

struct WindowsMut<'s, T> {
    slice: &'s mut [T],
    size: usize,
    at: usize,
}

impl<'s, T> LendingIterator for WindowsMut<'s, T> {
    type Item<'a>
        = &'a mut [T]
    where
        Self: 'a;

    fn next(&mut self) -> Option<Self::Item<'_>> {
        let window = self.slice.get_mut(self.at..self.at + self.size)?;
        self.at += 1;
        Some(window)
    }
}

/// Maps what is lent; the result must not borrow, which the bound says.
fn collect_with<T, B>(mut lender: WindowsMut<'_, T>, f: impl for<'a> Fn(&'a mut [T]) -> B) -> Vec<B> {
    let mut out = Vec::new();
    while let Some(item) = lender.next() {
        out.push(f(item));
    }
    out
}

fn windows<T>(slice: &mut [T], size: usize) -> WindowsMut<'_, T> {
    WindowsMut { slice, size, at: 0 }
}

fn joined(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

fn answer(text: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut numbers =
        text.split_whitespace().map(str::parse).collect::<Result<Vec<i64>, std::num::ParseIntError>>()?;
    let size = usize::try_from(numbers.remove(0))?;
    if size == 0 || size > numbers.len() {
        return Err(format!("a window of {size} over {} numbers", numbers.len()).into());
    }
    let sums = collect_with(windows(&mut numbers, size), |window: &mut [i64]| window.iter().sum::<i64>());
    // Each window takes its least value everywhere: windows see what those before them wrote.
    let mut lender = windows(&mut numbers, size);
    while let Some(window) = lender.next() {
        let least = window.iter().copied().min().unwrap_or_default();
        window.fill(least);
    }
    assert_eq!(lender.advance_by(3), 0);
    Ok(format!("sums {}, smoothed {}", joined(&sums), joined(&numbers)))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error.to_string()).into_bytes()
}
