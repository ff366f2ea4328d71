//! Operations on key-value data: what a function wrote, read within limits and done.

use std::time::Duration;

use mfaas_abi::limits::{KV_KEYS_MAX, OUTCOME_BYTES_MAX};
use mfaas_abi::{KvExpiry, KvReply, KvRequest};
use mfaas_broker_protocol::Caller;
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_kv::{Expiry, Key, Place, Transaction};
use mfaas_rules::codes;

use crate::broker::{Broker, of_store};
use crate::refusal::Refusal;

const _: () = assert!(KV_KEYS_MAX == mfaas_kv::limits::SCAN_ENTRIES_MAX, "a scan fills an outcome");

/// What a change counts for in operations a second.
const CHANGE_OPERATIONS: u32 = 10;

/// Does what a function asks of a resource, which it may look at or also change.
pub(crate) async fn answer(
    broker: &Broker,
    (caller, transaction): (&Caller, &mut Transaction),
    (resource, access): (&ResourceName, DataAccess),
    request: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let request = KvRequest::decode(request)
        .ok_or_else(|| Refusal::new(codes::MF1207, "the operation is not one of key-value data"))?;
    if request.writes() && access < DataAccess::Write {
        let message = format!("the function may look at `{resource}`, and not change it");
        return Err(Refusal::new(codes::MF1201, message));
    }
    if grows(&request) && broker.stored.is_full(resource) {
        let message =
            format!("`{resource}` holds {} bytes, as much as a resource may", broker.stored.bytes_max());
        return Err(Refusal::new(codes::MF1208, message));
    }
    let store = &broker.store;
    let place = |key: &[u8]| Ok::<_, Refusal>(Place { resource: resource.clone(), key: Key::new(key)? });
    // And how many keys were read.
    let (reply, read) = match &request {
        KvRequest::Get { keys } => {
            let keys: Vec<Key> = keys.iter().map(|key| Key::new(*key)).collect::<Result<_, _>>()?;
            let values = transaction.get(store, resource, &keys).await?;
            (KvReply::Values(values.iter().map(Option::as_deref).collect()).encode(), keys.len())
        }
        KvRequest::Put { key, value, expiry } => {
            let expiry = match expiry {
                KvExpiry::Never => Expiry::Never,
                KvExpiry::AfterMs(ms) => Expiry::After(Duration::from_millis(*ms)),
            };
            transaction.put(place(key)?, value.to_vec(), expiry)?;
            (KvReply::Done.encode(), 0)
        }
        KvRequest::Delete { key } => {
            transaction.delete(place(key)?)?;
            (KvReply::Done.encode(), 0)
        }
        KvRequest::Increment { key, by } => {
            let sum = transaction.increment(store, place(key)?, *by).await?;
            (KvReply::Number(sum).encode(), 1)
        }
        KvRequest::CompareAndSet { key, expected, value } => {
            let value = value.as_ref().map(|value| value.to_vec());
            let changed = transaction.compare_and_set(store, place(key)?, *expected, value).await?;
            (KvReply::Changed(changed).encode(), 1)
        }
        KvRequest::Scan { prefix, after, limit } => {
            let after = after.as_ref().map(|after| Key::new(*after)).transpose()?;
            let page = transaction.scan(store, resource, prefix, after.as_ref(), *limit as usize).await?;
            let entries = page.entries.iter().map(|(key, value)| (key.as_bytes(), &**value)).collect();
            let next = page.next.as_ref().map(Key::as_bytes);
            (KvReply::Page { entries, next }.encode(), page.entries.len())
        }
    };
    if reply.len() > OUTCOME_BYTES_MAX {
        let message = format!(
            "{} bytes of one operation's outcome, the limit is {OUTCOME_BYTES_MAX}: ask for fewer keys at once",
            reply.len()
        );
        return Err(Refusal::new(codes::MF1202, message));
    }
    broker.reads.note(|| of_store(caller), resource, &request, (read, reply.len()));
    Ok(reply)
}

/// How many operations a request counts for: a change leaves more behind than a read, in the audit at least.
pub(crate) fn operations(request: &[u8]) -> u32 {
    if KvRequest::decode(request).is_some_and(|request| request.writes()) { CHANGE_OPERATIONS } else { 1 }
}

/// Whether more may be stored after it than before.
fn grows(request: &KvRequest<'_>) -> bool {
    match request {
        KvRequest::Put { .. } | KvRequest::Increment { .. } => true,
        KvRequest::CompareAndSet { value, .. } => value.is_some(),
        KvRequest::Get { .. } | KvRequest::Delete { .. } | KvRequest::Scan { .. } => false,
    }
}
