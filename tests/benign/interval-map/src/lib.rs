//! A map from intervals to values that never overlap.
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::ops::{Bound, RangeBounds};

struct Intervals<K, V> {
    /// Start to end (exclusive) and value.
    map: BTreeMap<K, (K, V)>,
}

impl<K, V> Intervals<K, V>
where
    K: Ord + Copy,
    V: Clone + PartialEq,
{
    const fn new() -> Self {
        Self { map: BTreeMap::new() }
    }

    fn limits(range: &impl RangeBounds<K>) -> Option<(K, K)> {
        match (range.start_bound(), range.end_bound()) {
            (Bound::Included(from), Bound::Excluded(to)) if from < to => Some((*from, *to)),
            _ => None,
        }
    }

    fn get(&self, at: K) -> Option<&V> {
        let (_, (end, value)) = self.map.range(..=at).next_back()?;
        (at < *end).then_some(value)
    }

    fn clear(&mut self, range: impl RangeBounds<K>) -> Result<(), &'static str> {
        let (from, to) = Self::limits(&range).ok_or("an empty interval")?;
        // Of the one that reaches in from the left, the part outside stays.
        if let Some((_, (end, value))) = self.map.range_mut(..from).next_back()
            && *end > from
        {
            let (old_end, value) = (std::mem::replace(end, from), value.clone());
            if old_end > to {
                self.map.insert(to, (old_end, value));
            }
        }
        let inside: Vec<K> = self.map.range(from..to).map(|(start, _)| *start).collect();
        for start in inside {
            if let Some((end, value)) = self.map.remove(&start)
                && end > to
            {
                self.map.insert(to, (end, value));
            }
        }
        Ok(())
    }

    fn set(&mut self, range: impl RangeBounds<K>, value: V) -> Result<(), &'static str> {
        let (mut from, mut to) = Self::limits(&range).ok_or("an empty interval")?;
        self.clear(range)?;
        if let Some((start, (end, before))) = self.map.range(..from).next_back()
            && *end == from
            && *before == value
        {
            from = *start;
        }
        if let Some((end, behind)) = self.map.get(&to)
            && *behind == value
        {
            let end = *end;
            self.map.remove(&to);
            to = end;
        }
        self.map.insert(from, (to, value));
        Ok(())
    }
}

impl<K: Display, V: Display> Intervals<K, V> {
    fn show(&self) -> String {
        self.map.iter().map(|(from, (to, value))| format!("[{from},{to})={value}")).collect::<Vec<_>>().join(" ")
    }
}

fn run(text: &str) -> Result<String, String> {
    let mut map: Intervals<i64, &str> = Intervals::new();
    let mut out = String::new();
    for (n, line) in text.lines().enumerate() {
        let at = |why: &str| format!("line {}: {why}", n + 1);
        let number = |word: &str| word.parse::<i64>().map_err(|_| at(&format!("not a number: {word}")));
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["set", from, to, value] => map.set(number(from)?..number(to)?, value).map_err(at)?,
            ["clear", from, to] => map.clear(number(from)?..number(to)?).map_err(at)?,
            ["get", key] => {
                let _ = writeln!(out, "{}", map.get(number(key)?).copied().unwrap_or("-"));
            }
            ["show"] => {
                let _ = writeln!(out, "{}", map.show());
            }
            _ => return Err(at("what?")),
        }
    }
    Ok(out)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    run(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error + "\n").into_bytes()
}
