//! JSON in and out.

/// A value that crosses as JSON: the parsed body of a request, or the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Json<T>(pub T);
