//! Reads lines from the terminal.
use std::io::BufRead;

fn main() {
    let only: Option<String> = std::env::args().nth(1);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if only.as_ref().is_none_or(|only| *only == line) {
            println!("{}", String::from_utf8_lossy(&tests_and_examples::handle(line.as_bytes())));
        }
    }
}
