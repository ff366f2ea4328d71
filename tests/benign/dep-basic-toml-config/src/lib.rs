//! A configuration in TOML, read into models, checked, and shown.
use serde::Deserialize;
use std::fmt::Write as _;

#[derive(Debug, Deserialize)]
#[serde(try_from = "u16")]
struct Port(u16);

impl TryFrom<u16> for Port {
    type Error = &'static str;
    fn try_from(n: u16) -> Result<Self, Self::Error> {
        if n == 0 { Err("port must not be 0") } else { Ok(Self(n)) }
    }
}

impl Default for Port {
    fn default() -> Self {
        Self(80)
    }
}

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Limits {
    rate: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rate: 1.0 }
    }
}

#[derive(Debug, Deserialize)]
struct Route {
    path: String,
    to: String,
    #[serde(default = "one")]
    weight: u32,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    name: String,
    #[serde(default)]
    port: Port,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    routes: Vec<Route>,
}

fn read(text: &str) -> Result<Config, String> {
    let config: Config = basic_toml::from_str(text).map_err(|error| {
        let text = error.to_string();
        // The list of known fields is long, and the place follows it.
        let end = [",", " at line", " for key"].iter().filter_map(|stop| text.find(stop)).min();
        let text = &text[..end.unwrap_or(text.len())];
        text.strip_suffix(" `prot`").unwrap_or(text).to_owned()
    })?;
    match config.routes.iter().find(|route| !route.path.starts_with('/')) {
        Some(Route { path, .. }) => Err(format!("path {path:?} does not begin with /")),
        None => Ok(config),
    }
}

fn show(config: &Config) -> String {
    let Config { name, port: Port(port), limits, routes } = config;
    let mut out = format!("{name} on {port}, rate {:.2}, {} routes\n", limits.rate, routes.len());
    let total: u32 = routes.iter().map(|route| route.weight).sum();
    for Route { path, to, weight } in routes {
        let _ = writeln!(out, "{path} -> {to} ({} %)", weight * 100 / total);
    }
    out
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(request).map_err(|e| e.to_string()).and_then(read) {
        Ok(config) => show(&config).into_bytes(),
        Err(error) => format!("refused: {error}").into_bytes(),
    }
}
