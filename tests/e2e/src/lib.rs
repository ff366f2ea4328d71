//! The whole pipeline with real programs. The library is empty on purpose: the tests are one program, `tests/site`, whose files are a
//! subject each; beside it stand those that want the machine for themselves, because of what they compare or how long it may take.
