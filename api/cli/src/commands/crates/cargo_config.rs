//! `mfaas crate cargo-config`: what cargo has to be told to see this site's allowlist as its registry.

use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The name that the registry gets in cargo's configuration.
const REGISTRY: &str = "mfaas";
/// The variable that cargo reads that registry's token from.
const TOKEN_VARIABLE: &str = "CARGO_REGISTRIES_MFAAS_TOKEN";

/// The settings, and where the token goes, which is never printed.
#[derive(Debug, Serialize)]
struct CargoConfig {
    index: String,
    registry: &'static str,
    token_variable: &'static str,
    config: String,
}

/// Prints the file. Asks the server nothing.
pub(crate) fn print(context: &Context) -> Result<Exit, Failure> {
    let settings = settings(context.server())?;
    context.screen.result(&settings, || settings.config.trim_end().to_owned())?;
    context.screen.note(&format!(
        "put this into .cargo/config.toml of the package, and a token with the scope `read` into \
         {TOKEN_VARIABLE} (or `cargo login --registry {REGISTRY}`)"
    ));
    Ok(Exit::Ok)
}

fn settings(server: &str) -> Result<CargoConfig, Failure> {
    let server = server.trim_end_matches('/');
    // It becomes a text in a TOML file.
    if server.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
        return Err(Failure::Usage("the server's address cannot be written into a file".to_owned()));
    }
    let index = format!("sparse+{server}/index/");
    let config = format!(
        "# The crates that this mfaas site allows, in the place of the public registry.\n\
         [registries.{REGISTRY}]\n\
         index = \"{index}\"\n\
         credential-provider = [\"cargo:token\"]\n\
         \n\
         [source.crates-io]\n\
         replace-with = \"{REGISTRY}\"\n"
    );
    Ok(CargoConfig { index, registry: REGISTRY, token_variable: TOKEN_VARIABLE, config })
}

#[cfg(test)]
mod tests;
