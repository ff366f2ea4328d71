// Associated types as benign generic code uses them.
pub trait Shape {
    type Unit: Copy;
    fn scale(&self, by: Self::Unit) -> Self::Unit;
    fn pair(&self, by: Self::Unit) -> (Self::Unit, Self::Unit) {
        (self.scale(by), by)
    }
}

pub fn boxed<'a, I>(items: I) -> Box<dyn Iterator<Item = I::Item> + 'a>
where
    I: Iterator + 'a,
{
    Box::new(items)
}

pub fn kept<I>(items: I, last: I::Item) -> Box<dyn Iterator<Item = I::Item>>
where
    I: Iterator + 'static,
    I::Item: 'static,
{
    Box::new(items.chain(std::iter::once(last)))
}

pub fn contains<I: IntoIterator>(items: I, wanted: &I::Item) -> bool
where
    I::Item: PartialEq,
{
    items.into_iter().any(|item| item == *wanted)
}

pub struct Peeking<I: Iterator> {
    inner: I,
    next: Option<I::Item>,
}

impl<I: Iterator> Peeking<I> {
    pub fn peek(&mut self) -> Option<&I::Item> {
        if self.next.is_none() {
            self.next = self.inner.next();
        }
        self.next.as_ref()
    }
}

impl<'a, T> From<&'a [T]> for Peeking<std::slice::Iter<'a, T>> {
    fn from(items: &'a [T]) -> Self {
        Peeking { inner: items.iter(), next: None }
    }
}
