//! Values that functions use and never see.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use mfaas_abi::SecretForm;
use mfaas_ident::ResourceName;
use percent_encoding::percent_decode;
use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

use crate::error::SendError;
use crate::file::SecretEntry;

/// A shorter one would be found where it is not.
const BYTES_MIN: usize = 8;
const BYTES_MAX: usize = 4 << 10;

/// Where a secret lies, and where it may be sent.
#[derive(Debug)]
pub(crate) struct Secret {
    file: PathBuf,
    servers: BTreeSet<ResourceName>,
}

impl Secret {
    /// One that can be read now.
    pub(crate) fn open(entry: SecretEntry) -> io::Result<Self> {
        let SecretEntry { file, http: servers } = entry;
        Value::read(&file)?;
        Ok(Self { file, servers })
    }

    /// What it is now, for a server.
    pub(crate) async fn value_for(
        &self,
        name: &ResourceName,
        server: &ResourceName,
    ) -> Result<Value, SendError> {
        if !self.servers.contains(server) {
            return Err(SendError::Elsewhere { secret: name.clone(), server: server.clone() });
        }
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || Value::read(&file)).await;
        read.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
            tracing::error!(secret = %name, file = %self.file.display(), %error, "a secret cannot be read");
            SendError::Unreadable(name.clone())
        })
    }
}

/// What a secret is.
pub(crate) struct Value(Zeroizing<String>);

impl Value {
    /// The text of a file, without a line's end behind it.
    fn read(file: &Path) -> io::Result<Self> {
        let mut text = Zeroizing::new(String::new());
        std::fs::File::open(file)?.take(BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
        let value = text.trim_end_matches(['\r', '\n']);
        let wrong = if value.len() < BYTES_MIN || value.len() > BYTES_MAX {
            "a secret has 8 to 4096 bytes"
        } else if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            "a secret is one line of visible ASCII"
        } else {
            return Ok(Self(Zeroizing::new(value.to_owned())));
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
    }

    /// A header with it.
    pub(crate) fn header(&self, form: SecretForm<'_>) -> Result<HeaderValue, SendError> {
        let value = Zeroizing::new(match form {
            SecretForm::Bare => (*self.0).clone(),
            SecretForm::Bearer => format!("Bearer {}", *self.0),
            SecretForm::Basic(user) if user.contains(':') || user.chars().any(char::is_control) => {
                return Err(SendError::Request(
                    "the name of a user has no `:` and no control characters".to_owned(),
                ));
            }
            SecretForm::Basic(user) => {
                let both = Zeroizing::new(format!("{user}:{}", *self.0));
                format!("Basic {}", STANDARD.encode(both.as_bytes()))
            }
        });
        let header = HeaderValue::from_str(&value);
        let mut header = header.map_err(|_| SendError::Request("no header can hold this user".to_owned()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// How it stands where somebody shows it: as it is, or as servers commonly write what they were sent.
    pub(crate) fn traces(&self) -> Vec<Zeroizing<Vec<u8>>> {
        let value = self.0.as_bytes();
        let mut traces = vec![
            value.to_vec(),
            self.0
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;")
                .into_bytes(),
            value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
            value.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect(),
        ];
        if let Ok(json) = serde_json::to_string(&*self.0) {
            let escaped = &json[1..json.len() - 1];
            traces.extend([escaped.as_bytes().to_vec(), escaped.replace('/', "\\/").into_bytes()]);
        }
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            // By itself or behind something else, of which the characters at its ends depend.
            for before in 0..3 {
                let encoded = engine.encode([&[0; 3][..before], value].concat());
                let (first, last) = ((before * 8).div_ceil(6), (before + value.len()) * 8 / 6);
                traces.push(encoded.as_bytes()[first..last].to_vec());
            }
        }
        traces.sort();
        traces.dedup();
        traces.into_iter().map(Zeroizing::new).collect()
    }
}

/// Whether one of these stands in that text, also where it is percent-encoded.
pub(crate) fn shows(text: &[u8], traces: &[Zeroizing<Vec<u8>>]) -> bool {
    let decoded: Cow<'_, [u8]> = percent_decode(text).into();
    traces.iter().any(|trace| memmem::find(text, trace).or_else(|| memmem::find(&decoded, trace)).is_some())
}

#[cfg(test)]
mod tests;
