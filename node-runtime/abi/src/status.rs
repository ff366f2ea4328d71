//! How an invocation ended.

/// The end of one invocation, as a number that crosses the border to the node.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The handler returned; there is a response.
    Ok = 0,
    /// The handler returned `Err`; the response carries its text with status 500.
    HandlerError = 1,
    /// The handler panicked; the message holds text and place.
    Panicked = 2,
    /// CPU time ran past the budget.
    OverBudget = 3,
    /// The stack ran into its guard.
    StackOverflow = 4,
    /// The arena is used up.
    OutOfMemory = 5,
    /// The function reached for something that it is not offered: a system call or a symbol.
    Denied = 6,
    /// A wild access, an illegal instruction or an arithmetic trap.
    Fault = 7,
    /// The function aborted itself.
    Aborted = 8,
    /// The response is too large, not in the arena, or not a frame.
    BadOutput = 9,
}

impl Status {
    /// Every status, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::HandlerError,
        Self::Panicked,
        Self::OverBudget,
        Self::StackOverflow,
        Self::OutOfMemory,
        Self::Denied,
        Self::Fault,
        Self::Aborted,
        Self::BadOutput,
    ];

    /// The number that crosses the border.
    pub const fn as_u32(self) -> u32 {
        self as u32
    }

    /// The status with this number, if there is one. Numbers from a worker are hostile.
    pub fn from_u32(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The name in logs and JSON, for example `over_budget`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HandlerError => "handler_error",
            Self::Panicked => "panicked",
            Self::OverBudget => "over_budget",
            Self::StackOverflow => "stack_overflow",
            Self::OutOfMemory => "out_of_memory",
            Self::Denied => "denied",
            Self::Fault => "fault",
            Self::Aborted => "aborted",
            Self::BadOutput => "bad_output",
        }
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
