//! Iterator adapters of one's own.
use std::iter::{FusedIterator, Peekable};

struct Runs<I: Iterator> {
    inner: Peekable<I>,
}

impl<I> Iterator for Runs<I>
where
    I: Iterator,
    I::Item: PartialEq,
{
    type Item = (I::Item, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.inner.next()?;
        let mut count = 1;
        while self.inner.next_if_eq(&first).is_some() {
            count += 1;
        }
        Some((first, count))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (low, high) = self.inner.size_hint();
        (low.min(1), high)
    }
}

trait IteratorExt: Iterator + Sized {
    fn runs(self) -> Runs<Self>
    where
        Self::Item: PartialEq,
    {
        Runs { inner: self.peekable() }
    }

    fn pairs(self) -> impl Iterator<Item = (Self::Item, Self::Item)>
    where
        Self::Item: Clone,
    {
        let mut last = None;
        self.filter_map(move |item| last.replace(item.clone()).map(|before| (before, item)))
    }
}

impl<I: Iterator> IteratorExt for I {}

/// Every other item, from both ends.
struct EveryOther<'a, T>(&'a [T]);

impl<'a, T> Iterator for EveryOther<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest.get(1..).unwrap_or_default();
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.len().div_ceil(2);
        (left, Some(left))
    }
}

impl<T> DoubleEndedIterator for EveryOther<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let cut = (self.0.len().checked_sub(1)?) & !1;
        let (before, last) = self.0.split_at(cut);
        self.0 = before;
        last.first()
    }
}

impl<T> ExactSizeIterator for EveryOther<'_, T> {}
impl<T> FusedIterator for EveryOther<'_, T> {}

fn shown<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(" ")
}

fn numbers(text: &str) -> impl Iterator<Item = Result<i32, &str>> + use<'_> {
    text.split_whitespace().map(|word| word.parse().map_err(|_| word))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let all = match numbers(&text).collect::<Result<Vec<_>, _>>() {
        Ok(all) => all,
        Err(word) => return format!("not a number: {word}").into_bytes(),
    };
    format!(
        "runs {} | pairs {} | every other {} | back {} | left {}",
        shown(all.iter().runs().map(|(value, n)| format!("{value}x{n}"))),
        shown(all.iter().pairs().map(|(a, b)| format!("{a}-{b}"))),
        shown(EveryOther(&all)),
        shown(EveryOther(&all).rev()),
        EveryOther(&all).len()
    )
    .into_bytes()
}
