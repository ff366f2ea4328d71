//! A long text.
fn main() {
    let begin = std::time::Instant::now();
    let text = "ab".repeat(1 << 20);
    assert!(!tests_and_examples::is_palindrome(&text));
    std::thread::sleep(std::time::Duration::from_millis(1));
    println!("{:?}", begin.elapsed());
}
