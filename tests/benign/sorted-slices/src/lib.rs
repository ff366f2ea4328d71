//! What slices can do.
fn shown(numbers: &[i32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The places of a value in a sorted slice.
fn range(sorted: &[i32], value: i32) -> std::ops::Range<usize> {
    let from = sorted.partition_point(|x| *x < value);
    let to = from + sorted[from..].partition_point(|x| *x == value);
    from..to
}

fn insertion(sorted: &[i32], value: i32) -> usize {
    match sorted.binary_search(&value) {
        Ok(at) | Err(at) => at,
    }
}

fn median(numbers: &[i32]) -> i32 {
    let mut copy = numbers.to_vec();
    let middle = (copy.len() - 1) / 2;
    let (_, median, _) = copy.select_nth_unstable(middle);
    *median
}

fn answer(numbers: &[i32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    assert!(sorted.is_sorted());
    let gaps: Vec<i32> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut rotated = sorted.clone();
    rotated.rotate_left(sorted.len() * 2 / 5);
    let mut unique = sorted.clone();
    unique.dedup();
    let groups: Vec<i32> = sorted.chunk_by(|a, b| a == b).filter_map(|group| group.first().copied()).collect();
    assert_eq!(unique, groups);
    format!(
        "sorted {}, median {}, 3 at {:?}, 4 would go to {}, gaps {}, rotated {}, unique {}",
        shown(&sorted),
        median(numbers),
        range(&sorted, 3),
        insertion(&sorted, 4),
        shown(&gaps),
        shown(&rotated),
        shown(&unique)
    )
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let numbers: Result<Vec<i32>, &str> =
        text.split_whitespace().map(|word| word.parse().map_err(|_| word)).collect();
    match numbers.as_deref() {
        Ok([]) => "no numbers".to_owned(),
        Ok(numbers) => answer(numbers),
        Err(word) => format!("not a number: {word}"),
    }
    .into_bytes()
}
