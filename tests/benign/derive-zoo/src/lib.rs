//! Types that derive all there is, and code that needs each of the derives.
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum Column {
    Blank,
    Letter(char),
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Cell(Column, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Unit;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Labelled<T, L = Unit, M = u8>
where
    T: Copy,
{
    value: T,
    label: L,
    mark: PhantomData<M>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Column::Blank => write!(f, "-{}", self.1),
            Column::Letter(c) => write!(f, "{c}{}", self.1),
            Column::Unknown => write!(f, "x{}", self.1),
        }
    }
}

fn cell(word: &str) -> Option<Cell> {
    let mut chars = word.chars();
    let (column, row, None) = (chars.next()?, chars.next()?.to_digit(10)?, chars.next()) else { return None };
    let column = if column == '-' { Column::Blank } else { Column::Letter(column) };
    Some(Cell(column, row as u8))
}

fn different<T: Hash + Eq + Clone>(all: &[T]) -> usize {
    all.iter().cloned().collect::<HashSet<T>>().len()
}

fn answer(text: &str) -> Result<String, String> {
    let cells = text
        .split_whitespace()
        .map(|word| cell(word).map(|value| Labelled { value, ..Labelled::<Cell>::default() }).ok_or(word))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|word| format!("not a cell: {word}"))?;
    let first = cells.first().cloned().ok_or("no cells")?;
    let greatest = cells.iter().max().ok_or("no cells")?;
    assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), different(&cells));
    let mut sorted = cells.clone();
    sorted.sort();
    let sorted: Vec<String> = sorted.iter().map(|cell| cell.value.to_string()).collect();
    let copy = first.value;
    Ok(format!(
        "sorted {}, {} different, greatest {}, default {}, copy {}\n{:?}",
        sorted.join(" "),
        different(&cells),
        greatest.value,
        Cell::default(),
        if copy == first.value && copy.partial_cmp(&first.value).is_some() { "equal" } else { "different" },
        [first]
    ))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    (answer(&text).unwrap_or_else(|error| error) + "\n").into_bytes()
}
