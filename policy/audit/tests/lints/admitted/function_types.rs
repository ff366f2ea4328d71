// Types of functions with references in references, none of which relates data to a place for it.
use std::collections::HashMap;

pub struct Context<'c> {
    pub names: HashMap<&'c str, i64>,
}

pub type Handler = for<'a, 'c> fn(&'a mut Context<'c>, &'a str) -> Result<i64, &'a str>;
pub type Compare<T> = fn(&T, &T) -> std::cmp::Ordering;

pub trait Visitor<'ast> {
    fn visit(&mut self, node: &'ast str);
}

pub fn walk<'ast>(nodes: &[&'ast str], visit: &mut dyn FnMut(&'ast str) -> Option<&'ast str>) -> usize {
    nodes.iter().filter_map(|node| visit(node)).count()
}

pub fn each<T, R>(items: &[T], f: impl Fn(&T) -> R) -> Vec<R> {
    items.iter().map(f).collect()
}

pub fn sum<T>(items: &[T]) -> T
where
    for<'a> T: std::iter::Sum<&'a T>,
{
    items.iter().sum()
}

pub fn total<C>(items: &C) -> usize
where
    for<'a> &'a C: IntoIterator<Item = &'a u8>,
{
    items.into_iter().map(|byte| usize::from(*byte)).sum()
}
