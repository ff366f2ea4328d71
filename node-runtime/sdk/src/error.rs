//! An error for handlers that only need a sentence.

/// What went wrong, as a sentence. Anything that is an error turns into it with `?`.
///
/// ```
/// fn parse(text: &str) -> Result<u32, mfaas::Error> {
///     let number = text.trim().parse::<u32>()?;
///     if number == 0 { Err(mfaas::Error::new("the number must not be 0")) } else { Ok(number) }
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// An error that reads as `sentence`.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

// `Error` itself is not `std::error::Error`: the two would overlap for `From<Error> for Error`.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
