//! The shape of the table: one row for each attempt to get out of a sandbox.

use mfaas_confine::Layer;

use crate::stage::Stage;

/// One attempt, in its own process. `Err` holds the kernel's answer, an errno.
pub(crate) type Attempt = fn(&Stage) -> Result<(), i32>;

/// How an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// It did what it wanted.
    Did,
    /// It was told this errno.
    Errno(i32),
    /// SIGSYS.
    Killed,
    /// Another signal.
    Signal(i32),
}

impl std::fmt::Display for Went {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Went::Did => f.write_str("did it"),
            Went::Killed => f.write_str("SIGSYS"),
            Went::Signal(signal) => write!(f, "signal {signal}"),
            Went::Errno(errno) => {
                let text = std::io::Error::from_raw_os_error(*errno).to_string();
                f.write_str(text.split(" (os error").next().unwrap_or(&text))
            }
        }
    }
}

/// Where the same attempt works, so that its failure inside says something.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Twin {
    /// Outside of any sandbox, whoever one is.
    Outside,
    /// Outside, as root.
    AsRoot,
    /// Outside, in fresh namespaces of one's own, where it harms nobody.
    Namespaced,
    /// Outside the kernel looks at the arguments, which are harmless, and answers so. For what
    /// would change the machine.
    Looks(&'static [i32]),
    /// Outside it succeeds, or the machine itself answers so: not every first process can be traced.
    Outsider(&'static [i32]),
}

/// What happens when layers are off.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// The attempt succeeds.
    Did,
    /// It gets another answer than in the whole sandbox: it has passed the layer.
    Further,
    /// A second layer answers so.
    Held(&'static [i32]),
}

/// One row.
pub(crate) struct Probe {
    /// Unique.
    pub(crate) name: &'static str,
    /// What it tries.
    pub(crate) tries: &'static str,
    pub(crate) attempt: Attempt,
    pub(crate) twin: Twin,
    /// How the whole sandbox answers.
    pub(crate) inside: Went,
    /// Without these layers, this.
    pub(crate) ablations: &'static [(&'static [Layer], Then)],
    /// Why it succeeds in a sandbox of level landlock, if it does: the level says less, and here is what.
    pub(crate) weaker: Option<&'static str>,
}

impl Probe {
    /// A row whose attempt succeeds at level landlock, and why that is so.
    pub(crate) const fn weaker(mut self, why: &'static str) -> Self {
        self.weaker = Some(why);
        self
    }
}

pub(crate) const fn row(
    name: &'static str,
    tries: &'static str,
    attempt: Attempt,
    twin: Twin,
    inside: Went,
    ablations: &'static [(&'static [Layer], Then)],
) -> Probe {
    Probe { name, tries, attempt, twin, inside, ablations, weaker: None }
}

/// A system call that is denied by name; behind the filter it is the kernel's business again.
pub(crate) const fn denied(
    name: &'static str,
    tries: &'static str,
    attempt: Attempt,
    twin: Twin,
    inside: Went,
) -> Probe {
    row(name, tries, attempt, twin, inside, &[(&[Layer::Seccomp], Then::Further)])
}

/// A name that is not there; without the private root landlock holds, and without both it is open.
pub(crate) const fn hidden(name: &'static str, tries: &'static str, attempt: Attempt, twin: Twin) -> Probe {
    row(
        name,
        tries,
        attempt,
        twin,
        Went::Errno(libc::ENOENT),
        &[
            (&[Layer::Namespaces], Then::Held(&[libc::EACCES])),
            (&[Layer::Namespaces, Layer::Landlock], Then::Further),
        ],
    )
}

pub(crate) const ABSENT: Went = Went::Errno(libc::ENOSYS);
