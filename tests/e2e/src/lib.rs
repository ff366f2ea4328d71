//! The whole pipeline with real programs. The library is empty on purpose: each file in `tests/` is
//! one subject with one installation of its own.
