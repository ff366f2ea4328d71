#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn key(text: &str) -> PackageKey {
    let (name, version) = text.split_once(' ').unwrap();
    (name.parse().unwrap(), version.parse().unwrap())
}

#[test]
fn the_way_to_a_crate_is_the_shortest_one() {
    let needs = BTreeMap::from([
        (key("regex 1.0.0"), vec![key("regex-automata 0.4.0"), key("aho-corasick 1.1.0")]),
        (key("regex-automata 0.4.0"), vec![key("memchr 2.8.0"), key("aho-corasick 1.1.0")]),
        (key("aho-corasick 1.1.0"), vec![key("memchr 2.8.0"), key("regex 1.0.0")]),
        (key("stranger 1.0.0"), vec![key("other 1.0.0")]),
    ]);
    let paths = paths(&key("regex 1.0.0"), &needs);
    assert_eq!(paths.len(), 4);
    assert_eq!(
        paths[&key("memchr 2.8.0")],
        [key("regex 1.0.0"), key("aho-corasick 1.1.0"), key("memchr 2.8.0")]
    );
    assert_eq!(paths[&key("regex 1.0.0")], [key("regex 1.0.0")]);
    assert!(!paths.contains_key(&key("other 1.0.0")));
}
