//! Words from a file.
use std::fs;
use std::time::Instant;

#[test]
fn words() {
    let begin = Instant::now();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/words.txt");
    for word in fs::read_to_string(path).unwrap().lines() {
        assert!(tests_and_examples::is_palindrome(word), "{word}");
    }
    println!("{:?}", begin.elapsed());
}
