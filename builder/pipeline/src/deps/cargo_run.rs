//! cargo on a prepared seed, with the broker beside it.

use super::broker::Broker;
use super::exchange::EXCHANGE_VARIABLE;
use super::made::Made;
use super::messages::{self, Compiled};
use super::site::{Site, succeeded};
use crate::error::BuilderError;
use crate::sandbox::Ran;
use crate::toolchain::{TARGET, host_libraries};

/// How the compiler's messages come: what cargo itself says are objects either way.
#[derive(Clone, Copy)]
enum Messages {
    /// On standard error, as text for people.
    Drawn,
    /// Among cargo's objects.
    Objects,
}

impl Messages {
    fn argument(self) -> &'static str {
        match self {
            Self::Drawn => "--message-format=json-render-diagnostics",
            Self::Objects => "--message-format=json",
        }
    }
}

impl Site {
    pub(super) fn run_cargo(&self) -> Result<(Vec<Compiled>, Made), BuilderError> {
        let (ran, made) = self.cargo(&["build"], Messages::Drawn)?;
        let output = messages::parse(&succeeded("cargo", ran)?.stdout, TARGET)
            .map_err(|problem| BuilderError::Command { command: "cargo", problem })?;
        Ok((output.compiled, made))
    }

    /// Type-checks everything, as far as it goes, and answers what cargo says about it, and what each
    /// compiler was asked.
    pub(crate) fn check(&self) -> Result<(Ran, Made), BuilderError> {
        self.cargo(&["check", "--keep-going"], Messages::Drawn)
    }

    /// The same against the stand-ins of a plan, with the compiler's messages as objects.
    pub(super) fn check_as_text(&self) -> Result<Ran, BuilderError> {
        self.cargo(&["check", "--keep-going"], Messages::Objects).map(|(ran, _)| ran)
    }

    /// Runs cargo on the seed, with our wrapper in place of rustc and of build scripts. It may fail.
    fn cargo(&self, command: &[&str], messages: Messages) -> Result<(Ran, Made), BuilderError> {
        let arguments = command
            .iter()
            .chain(&["--release", "--frozen", "--offline", messages.argument()])
            .map(|argument| (*argument).to_owned())
            .chain([format!("--target={TARGET}"), format!("--target-dir={}", self.out.path("target"))])
            .collect();
        let mut job = self.job(self.trusted.path("bin/cargo"), arguments, self.cargo_environment());
        job.views.extend([self.trusted.clone(), self.vendor.clone(), self.wrapper.clone(), self.out.clone()]);
        #[cfg(feature = "ablation")]
        if self.together {
            job.views.extend(self.host_system());
            job.views.push(self.sandbox.load(&self.library(), super::site::LIBRARY_INSIDE));
            return self.sandbox.run(job).map(|ran| (ran, Made::default()));
        }
        job.environment.push((EXCHANGE_VARIABLE.to_owned(), self.exchange.inside.clone()));
        job.views.extend(host_libraries(&self.sandbox));
        job.views.push(self.exchange.clone());
        Broker::new(self, &self.sandbox).run(job)
    }
}
