//! Nothing: this crate is its tests, `tests/hostile` and `tests/honest` tried against the real admission.
