//! Who gets in and who does not, shown by the real admission on folders of real source. The
//! library is empty on purpose: each directory in `tests/` is one side of the question.
