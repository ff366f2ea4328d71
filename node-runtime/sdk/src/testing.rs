//! For tests of handlers, with `cargo test` on a developer's machine.
//!
//! ```
//! async fn later(text: String) -> String {
//!     mfaas::sleep(std::time::Duration::from_millis(5)).await;
//!     text.to_uppercase()
//! }
//! assert_eq!(mfaas::testing::block_on(later("a".to_owned())), "A");
//! ```

/// Runs what is `async` to its end on this thread. Not for handlers, which their node runs.
///
/// # Panics
/// If `future` waits for what this crate does not offer.
pub use mfaas_shim::block_on;
