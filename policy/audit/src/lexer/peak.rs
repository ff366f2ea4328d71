//! The largest value of a measure.

/// The largest value of one measure in a file, and the token where it was met.
#[derive(Default, Clone, Copy)]
pub(super) struct Peak {
    pub(super) value: usize,
    pub(super) token: usize,
}

impl Peak {
    pub(super) fn raise(&mut self, value: usize, token: usize) {
        if value > self.value {
            *self = Self { value, token };
        }
    }
}
