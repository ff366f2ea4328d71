//! `mfaas login`: tries a token and keeps it in the profile.

use std::io::{BufRead as _, IsTerminal as _};

use mfaas_wire::WhoAmI;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The longest token that is read, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// Keep an access token in the profile file; without --token it is read from standard input.
///
/// For example: `mfaas login --server http://127.0.0.1:7700`
#[derive(Debug, clap::Args)]
pub(crate) struct Login {}

impl Login {
    /// Tries the token first: what does not work is not kept.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let path = context
            .profile_path
            .as_ref()
            .ok_or_else(|| Failure::Usage("HOME is not set; give --profile-file".to_owned()))?;
        let token = match &context.global.token {
            Some(token) => token.clone(),
            None => read_token(context)?,
        };
        let client = Client::new(context.server(), context.ca_file(), Some(token.clone()), None)?;
        let who: WhoAmI = client.get("/v1/whoami").await?;
        let mut profile = context.profile.clone();
        profile.server = Some(context.server().to_owned());
        profile.ca_file = match context.ca_file() {
            Some(path) => Some(std::path::absolute(path).map_err(Failure::io("cannot find", path))?),
            None => None,
        };
        profile.tenant = Some(who.tenant.clone());
        profile.token = Some(token);
        profile.save(path, None)?;
        context.screen.result(&who, || {
            let scopes: Vec<&str> = who.scopes.iter().map(|scope| scope.as_str()).collect();
            format!(
                "signed in at {} as tenant {} ({}), kept in {}",
                context.server(),
                who.tenant,
                scopes.join(", "),
                path.display()
            )
        })?;
        Ok(Exit::Ok)
    }
}

fn read_token(context: &Context) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        context.screen.note("token:");
    }
    let mut line = String::new();
    std::io::Read::take(stdin.lock(), TOKEN_BYTES_MAX as u64)
        .read_line(&mut line)
        .map_err(Failure::io("cannot read", "standard input"))?;
    match line.trim() {
        "" => Err(Failure::SignIn("no token was given".to_owned())),
        token => Ok(token.to_owned()),
    }
}
