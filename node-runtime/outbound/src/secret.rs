//! Values that functions use and never see.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use mfaas_ident::ResourceName;
use percent_encoding::percent_decode;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::error::SendError;
use crate::file::SecretEntry;
use crate::reserved::header_name;

/// A shorter one would be found where it is not, and could be guessed by looking what is found.
const BYTES_MIN: usize = 16;
const BYTES_MAX: usize = 4 << 10;
/// Characters that servers write in other ways where they show a text, in JSON or HTML for example.
const AMBIGUOUS: &str = "\"'`&<>\\";
/// Earlier values that are looked for as well.
const EARLIER_MAX: usize = 4;

/// Where a secret lies, where it may be sent, and how.
#[derive(Debug)]
pub(crate) struct Secret {
    file: PathBuf,
    pub(crate) servers: BTreeSet<ResourceName>,
    pub(crate) header: HeaderName,
    form: Form,
    /// Values that it has had in this process.
    seen: Mutex<Vec<Value>>,
}

/// What stands in the header.
#[derive(Debug)]
enum Form {
    /// The secret itself, behind a word if there is one.
    Behind(Option<String>),
    /// Name of a user whose password it is.
    PasswordOf(String),
}

impl Secret {
    /// One that can be read now.
    pub(crate) fn open(entry: SecretEntry) -> Result<Self, String> {
        let SecretEntry { file, http: servers, header, scheme, user } = entry;
        let header = match &header {
            None => AUTHORIZATION,
            Some(name) => header_name(&name.to_ascii_lowercase()).map_err(|error| error.to_string())?,
        };
        let form = match (scheme, user) {
            (Some(_), Some(_)) => return Err("it has a `scheme` or a `user`, and not both".to_owned()),
            (None, Some(user)) if user.contains(':') => {
                return Err("the name of a user has no `:`".to_owned());
            }
            (None, Some(user)) => Form::PasswordOf(user),
            (Some(scheme), None) => Form::Behind(Some(scheme).filter(|scheme| !scheme.is_empty())),
            (None, None) => Form::Behind((header == AUTHORIZATION).then(|| "Bearer".to_owned())),
        };
        let secret = Self { file, servers, header, form, seen: Mutex::default() };
        let value =
            Value::read(&secret.file).map_err(|error| format!("{}: {error}", secret.file.display()))?;
        secret.header_of(&value).map_err(|_| "its `scheme` or `user` cannot stand in a header".to_owned())?;
        Ok(secret)
    }

    /// What it is now.
    pub(crate) async fn value(&self, name: &ResourceName) -> Result<Value, SendError> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || Value::read(&file)).await;
        let value = read.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
            tracing::error!(secret = %name, file = %self.file.display(), %error, "a secret cannot be read");
            SendError::Unreadable(name.clone())
        })?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains(&value) {
            if seen.len() >= EARLIER_MAX {
                seen.remove(0);
            }
            seen.push(value.clone());
        }
        Ok(value)
    }

    /// The header that carries a value of it.
    pub(crate) fn header_of(&self, value: &Value) -> Result<(HeaderName, HeaderValue), SendError> {
        let text = Zeroizing::new(match &self.form {
            Form::Behind(None) => (*value.0).clone(),
            Form::Behind(Some(scheme)) => format!("{scheme} {}", *value.0),
            Form::PasswordOf(user) => {
                let both = Zeroizing::new(format!("{user}:{}", *value.0));
                format!("Basic {}", STANDARD.encode(both.as_bytes()))
            }
        });
        let header = HeaderValue::from_str(&text);
        let mut header =
            header.map_err(|_| SendError::Request("the secret cannot stand in a header".to_owned()))?;
        header.set_sensitive(true);
        Ok((self.header.clone(), header))
    }

    /// How values of it stand where somebody shows them.
    pub(crate) fn traces(&self) -> Vec<Trace> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().flat_map(Value::traces).collect()
    }
}

/// What a secret is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value(Zeroizing<String>);

/// A form of a secret, in lower case.
pub(crate) type Trace = Zeroizing<Vec<u8>>;

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Value")
    }
}

impl Value {
    /// The text of a file, without a line's end behind it.
    fn read(file: &Path) -> io::Result<Self> {
        let mut text = Zeroizing::new(String::new());
        std::fs::File::open(file)?.take(BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
        let value = text.trim_end_matches(['\r', '\n']);
        let is_plain = |character: char| character.is_ascii_graphic() && !AMBIGUOUS.contains(character);
        let wrong = if value.len() < BYTES_MIN || value.len() > BYTES_MAX {
            "a secret has 16 to 4096 characters"
        } else if !value.chars().all(is_plain) {
            "a secret is one line of ASCII, without spaces and any of \" ' ` & < > \\"
        } else {
            return Ok(Self(Zeroizing::new(value.to_owned())));
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
    }

    /// As it is, and as servers commonly write what they were sent.
    fn traces(&self) -> Vec<Trace> {
        let value = self.0.as_bytes();
        let hex: Vec<u8> = value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        let mut traces = vec![value.to_vec(), self.0.replace('/', "\\/").into_bytes(), hex];
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            // By itself or behind something else, of which the characters at its ends depend.
            for before in 0..3 {
                let encoded = engine.encode([&[0; 3][..before], value].concat());
                let (first, last) = ((before * 8).div_ceil(6), (before + value.len()) * 8 / 6);
                traces.push(encoded.as_bytes()[first..last].to_vec());
            }
        }
        traces.iter_mut().for_each(|trace| trace.make_ascii_lowercase());
        traces.sort();
        traces.dedup();
        traces.into_iter().map(Zeroizing::new).collect()
    }
}

/// Whether one of these stands in that text: in any case, with two bytes or four for each character, or percent-encoded, also twice.
pub(crate) fn shows(text: &[u8], traces: &[Trace]) -> bool {
    let text: Vec<u8> = text.iter().filter(|byte| **byte != 0).map(u8::to_ascii_lowercase).collect();
    let once = decoded(&text);
    let twice = decoded(&once);
    let texts = [&text[..], &*once, &*twice];
    traces.iter().any(|trace| texts.iter().any(|text| memmem::find(text, trace).is_some()))
}

/// Percent-decoded, and in lower case again.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    match percent_decode(text).into() {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(mut text) => {
            text.make_ascii_lowercase();
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests;
