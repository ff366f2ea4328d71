//! A least-recently-used cache, and the story of its hits.
use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

struct Lru<K, V> {
    capacity: usize,
    map: HashMap<K, V>,
    /// Least recently used first.
    order: VecDeque<K>,
}

impl<K: Eq + Hash + Clone, V> Lru<K, V> {
    fn new(capacity: usize) -> Self {
        Self { capacity, map: HashMap::with_capacity(capacity), order: VecDeque::new() }
    }

    fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let at = self.order.iter().position(|known| known.borrow() == key)?;
        let known = self.order.remove(at)?;
        self.order.push_back(known);
        self.map.get_mut(key)
    }

    /// Answers the key that had to go.
    fn insert(&mut self, key: K, value: V) -> Option<K> {
        let evicted = if self.map.len() == self.capacity { self.order.pop_front() } else { None };
        if let Some(evicted) = &evicted {
            self.map.remove(evicted);
        }
        self.order.push_back(key.clone());
        self.map.insert(key, value);
        evicted
    }
}

impl<'a, K, V> IntoIterator for &'a Lru<K, V> {
    type Item = &'a K;
    type IntoIter = std::collections::vec_deque::Iter<'a, K>;
    fn into_iter(self) -> Self::IntoIter {
        self.order.iter()
    }
}

#[derive(Default)]
struct Story(Vec<String>);

impl Extend<String> for Story {
    fn extend<I: IntoIterator<Item = String>>(&mut self, lines: I) {
        self.0.extend(lines);
    }
}

fn visit(cache: &mut Lru<Rc<str>, u32>, word: &str) -> String {
    if let Some(hits) = cache.get(word) {
        *hits += 1;
        return format!("{word} hit");
    }
    match cache.insert(Rc::from(word), 0) {
        Some(evicted) => format!("{word} miss evicts {evicted}"),
        None => format!("{word} miss"),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let (capacity, words) = text.split_once(':').unwrap_or_default();
    let Ok(capacity @ 1..=100) = capacity.parse() else { return b"capacity must be from 1 to 100".to_vec() };
    let mut cache = Lru::new(capacity);
    let mut story = Story::default();
    story.extend(words.split_whitespace().map(|word| visit(&mut cache, word)));
    let left: Vec<&str> = cache.into_iter().map(|key| &**key).collect();
    format!("{}; left {}", story.0.join(", "), left.join(" ")).into_bytes()
}
