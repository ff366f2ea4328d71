//! Palindromes, in a package with everything that a package has.
//!
//! ```
//! assert_eq!(tests_and_examples::handle(b"abba"), b"abba is a palindrome");
//! ```

/// Whether letters and digits read the same from both ends.
pub fn is_palindrome(text: &str) -> bool {
    let letters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    letters.iter().eq(letters.iter().rev())
}

fn answer(text: &str) -> String {
    match text {
        "" => "nothing to read".to_owned(),
        text if is_palindrome(text) => format!("{text} is a palindrome"),
        text => format!("{text} is no palindrome"),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends() {
        assert!(is_palindrome("Otto"));
        assert!(!is_palindrome("Otta"));
    }

    #[test]
    #[should_panic(expected = "no palindrome")]
    fn one_end() {
        panic!("{}", answer("ab"));
    }
}
