//! Operations on key-value data: what a function wrote, read within limits and done.

use std::time::Duration;

use mfaas_abi::limits::KV_KEYS_MAX;
use mfaas_abi::{KvExpiry, KvReply, KvRequest};
use mfaas_broker_protocol::Caller;
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_kv::{Expiry, Key, Place, Transaction, Value};
use mfaas_rules::codes;

use crate::broker::{Broker, of_store};
use crate::reads::Read;
use crate::refusal::Refusal;

const _: () = assert!(KV_KEYS_MAX == mfaas_kv::limits::SCAN_ENTRIES_MAX, "a scan fills an outcome");

/// Does what a function asks of a resource, which it may look at or also change.
pub(crate) async fn answer(
    broker: &Broker,
    (caller, transaction): (&Caller, &mut Transaction),
    (resource, access): (&ResourceName, DataAccess),
    request: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let request = KvRequest::decode(request)
        .ok_or_else(|| Refusal::new(codes::MF1207, "the operation is not one of key-value data"))?;
    if request.writes() {
        Refusal::unless_write(resource, access)?;
        broker.data.may_change(transaction, resource)?;
    }
    if grows(&request) {
        broker.stored.has_room(resource, 0)?;
    }
    let stores = &broker.data;
    let place = |key: &[u8]| Ok::<_, Refusal>(Place { resource: resource.clone(), key: Key::new(key)? });
    // And how many keys were read.
    let (reply, read) = match &request {
        KvRequest::Get { keys } => {
            let keys: Vec<Key> = keys.iter().map(|key| Key::new(*key)).collect::<Result<_, _>>()?;
            let values = transaction.get(stores, resource, &keys).await?;
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
            let sum = transaction.increment(stores, place(key)?, *by).await?;
            (KvReply::Number(sum).encode(), 1)
        }
        KvRequest::CompareAndSet { key, expected, value } => {
            let value = value.as_ref().map(|value| value.to_vec());
            let changed = transaction.compare_and_set(stores, place(key)?, *expected, value).await?;
            (KvReply::Changed(changed).encode(), 1)
        }
        KvRequest::Scan { prefix, after, limit } => {
            let after = after.as_ref().map(|after| Key::new(*after)).transpose()?;
            let page = transaction.scan(stores, resource, prefix, after.as_ref(), *limit as usize).await?;
            let bytes = |(key, value): (Key, Value)| Ok::<_, Refusal>((key, value.into_bytes()?));
            let entries: Vec<_> = page.entries.into_iter().map(bytes).collect::<Result<_, Refusal>>()?;
            let entries = entries.iter().map(|(key, value)| (key.as_bytes(), &**value)).collect::<Vec<_>>();
            let (next, read) = (page.next.as_ref().map(Key::as_bytes), entries.len());
            (KvReply::Page { entries, next }.encode(), read)
        }
    };
    let reply = Refusal::unless_too_long(reply)?;
    if let Some((key, is_scan)) = read_by(&request) {
        let read = Read { key, is_scan, keys: read, bytes: reply.len() };
        broker.reads.note(|| of_store(caller), resource, read);
    }
    Ok(reply)
}

/// The first key that a request reads, or what the keys of its scan begin with, and whether it is one.
fn read_by<'a>(request: &KvRequest<'a>) -> Option<(&'a [u8], bool)> {
    match request {
        KvRequest::Get { keys } => keys.first().map(|key| (*key, false)),
        KvRequest::Scan { prefix, .. } => Some((*prefix, true)),
        // What they tell of the value before is read as well.
        KvRequest::Increment { key, .. } | KvRequest::CompareAndSet { key, .. } => Some((*key, false)),
        KvRequest::Put { .. } | KvRequest::Delete { .. } => None,
    }
}

/// Whether more may be stored after it than before.
fn grows(request: &KvRequest<'_>) -> bool {
    match request {
        KvRequest::Put { .. } | KvRequest::Increment { .. } => true,
        KvRequest::CompareAndSet { value, .. } => value.is_some(),
        KvRequest::Get { .. } | KvRequest::Delete { .. } | KvRequest::Scan { .. } => false,
    }
}
