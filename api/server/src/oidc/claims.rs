//! Claims to person and role. Pure: the ID token was verified before.

use std::collections::BTreeMap;

use mfaas_ident::PersonName;
use serde_json::Value;

use super::settings::{PersonClaim, Settings};
use super::sign_in::{SignInError, SignedIn};

/// The claims of an ID token beyond the standard ones.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Extra {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl openidconnect::AdditionalClaims for Extra {}

impl Extra {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.all.get(name)
    }
}

/// What a verified ID token says.
pub(super) struct VerifiedClaims<'a> {
    pub(super) subject: &'a str,
    pub(super) email: Option<&'a str>,
    pub(super) email_verified: Option<bool>,
    pub(super) groups: Option<&'a Value>,
}

/// Who that is, with what role.
pub(super) fn admit(settings: &Settings, told: &VerifiedClaims<'_>) -> Result<SignedIn, SignInError> {
    let person = person(settings, told)?;
    let groups = groups(told.groups).ok_or_else(|| {
        SignInError::NoRole(format!("{person}: the claim `{}` is no list of groups", settings.groups_claim))
    })?;
    let row = settings.roles.iter().find(|row| groups.contains(&row.group.as_str()));
    let row = row.ok_or_else(|| SignInError::NoRole(format!("{person} is in none of the groups")))?;
    Ok(SignedIn { person, role: row.role, tenant: row.tenant.clone() })
}

/// Letter case is folded: two spellings of one name are one vote. Nothing else is changed; a name with other
/// characters than a person's is refused.
fn person(settings: &Settings, told: &VerifiedClaims<'_>) -> Result<PersonName, SignInError> {
    let nobody = |why: &str| SignInError::Nobody(format!("subject {}: {why}", shown(told.subject)));
    let name = match settings.person {
        PersonClaim::Email => {
            let email = told.email.ok_or_else(|| nobody("there is no claim `email`"))?;
            if told.email_verified != Some(true) {
                return Err(nobody("the address is not verified"));
            }
            if !email.contains('@') {
                return Err(nobody("the address is none"));
            }
            email.to_owned()
        }
        // Behind the host of its issuer, so that it is no name that anybody else has.
        PersonClaim::Subject if told.subject.is_empty() => return Err(nobody("the subject is empty")),
        PersonClaim::Subject => format!("{}/{}", settings.host, told.subject),
    };
    if !name.is_ascii() {
        return Err(nobody("the name has characters that a person's cannot have"));
    }
    PersonName::parse(&name.to_ascii_lowercase()).map_err(|error| nobody(&error.to_string()))
}

/// A list of strings, or one string. Anything else is not understood, and nobody gets a role for it.
fn groups(claim: Option<&Value>) -> Option<Vec<&str>> {
    match claim? {
        Value::String(one) => Some(vec![one]),
        Value::Array(many) => many.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn shown(text: &str) -> String {
    mfaas_ident::sanitise_line(text, 100)
}
