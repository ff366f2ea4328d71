//! `mfaas-node join`: a key that never leaves this machine, and a certificate for it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context as _;
use mfaas_delivery::{JoinRequest, NODE_PROTOCOL, SERVER_PROTOCOL};
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::config::Membership;
use crate::state::{NodeIdentity, StateDir};
use crate::upstream::Upstream;

/// The largest file with a token, in bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;

/// Joins with the token in a file, unless the node has joined before.
pub(crate) async fn join(membership: &Membership, token_file: &Path) -> anyhow::Result<()> {
    let state = StateDir::open(&membership.state_dir)?;
    if let Some(identity) = state.identity()? {
        Upstream::joined(membership, &identity)
            .context("the identity in MFAAS_STATE_DIR is damaged; remove node.pem to join again")?;
        tracing::info!("this node has joined before; nothing to do");
        return Ok(());
    }
    let token = read_token(token_file).with_context(|| format!("--token-file {}", token_file.display()))?;
    let key = key_to_join_with(&state)?;
    let request = JoinRequest {
        protocol: NODE_PROTOCOL,
        name: membership.name.clone(),
        token,
        csr_pem: certificate_request(membership.name.as_str(), &key)?,
    };
    let answer = Upstream::anonymous(membership)?.join(&request).await.context("joining")?;
    anyhow::ensure!(
        answer.protocol == SERVER_PROTOCOL,
        "the server speaks node protocol {}",
        answer.protocol
    );
    let identity = NodeIdentity {
        key_pem: key.serialize_pem().into_bytes(),
        certificate_pem: answer.certificate_pem.into_bytes(),
    };
    // The pair must work before it is kept. `ca_pem` of the answer is not used: the authority that
    // counts is the one the operator put into MFAAS_CA_FILE.
    Upstream::joined(membership, &identity).context("the certificate does not fit the key")?;
    state.store_identity(&identity)?;
    tracing::info!(node = %membership.name, "joined");
    Ok(())
}

/// The key of the last attempt, if it is still there: whoever asks twice with one key uses a token once.
fn key_to_join_with(state: &StateDir) -> anyhow::Result<KeyPair> {
    let kept = state.key()?.and_then(|pem| KeyPair::from_pem(std::str::from_utf8(&pem).ok()?).ok());
    if let Some(key) = kept {
        return Ok(key);
    }
    let key = KeyPair::generate().context("making a private key")?;
    state.store_key(key.serialize_pem().as_bytes())?;
    Ok(key)
}

/// A token is never an argument: those of a process are read by every user of the machine.
fn read_token(file: &Path) -> anyhow::Result<String> {
    let source: Box<dyn Read> =
        if file == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(File::open(file)?) };
    let mut text = String::new();
    source.take(TOKEN_FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    anyhow::ensure!(
        text.len() as u64 <= TOKEN_FILE_BYTES_MAX,
        "it is larger than {TOKEN_FILE_BYTES_MAX} bytes"
    );
    let token = text.trim();
    anyhow::ensure!(!token.is_empty(), "it is empty: put what `mfaas node join-token` printed there");
    Ok(token.to_owned())
}

/// Signed with the key, so that whoever reads it knows that the node has it.
pub(crate) fn certificate_request(name: &str, key: &KeyPair) -> anyhow::Result<String> {
    let mut params = CertificateParams::new(Vec::new()).context("preparing the certificate request")?;
    params.distinguished_name.push(DnType::CommonName, name);
    let request = params.serialize_request(key).context("signing the certificate request")?;
    request.pem().context("writing the certificate request")
}
