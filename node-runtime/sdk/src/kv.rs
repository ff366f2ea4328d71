//! Values by key.

use std::marker::PhantomData;
use std::time::Duration;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::{KvExpiry, KvReply, KvRequest};

use crate::Response;
use crate::binding::{Access, Binding, DataError, Declared, Manifest, Read, Write, ask, place_of};
use crate::input::FromRequest;

/// Values by key, in a resource of the site that the function binds: a parameter of a handler.
///
/// ```
/// use mfaas::{Binding, Error, Kv, Write};
///
/// struct Visits;
///
/// impl Binding for Visits {
///     const NAME: &'static str = "visits";
///     type Value = i64;
/// }
///
/// pub async fn handle(page: String, visits: Kv<Visits, Write>) -> Result<String, Error> {
///     let count = visits.increment(&page, 1).await?;
///     Ok(format!("{page} was seen {count} times"))
/// }
/// # let answer = mfaas::testing::block_on(handle("a".to_owned(), mfaas::testing::kv()));
/// # assert_eq!(answer.unwrap(), "a was seen 1 times");
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.visits]
/// kind = "kv"
/// access = "write"
/// ```
///
/// What a call changes takes effect at once, when its handler has returned without an error, and not at all otherwise. Until then the call
/// alone sees it. If another call has changed meanwhile what this one has read, nothing takes effect and the call is run again.
pub struct Kv<B, A = Read> {
    place: u32,
    marker: PhantomData<fn() -> (B, A)>,
}

impl<B, A> Kv<B, A> {
    pub(crate) fn at(place: u32) -> Self {
        Self { place, marker: PhantomData }
    }
}

impl<B: Binding, A> std::fmt::Debug for Kv<B, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kv").field(&B::NAME).finish()
    }
}

/// Takes nothing of the request.
impl<B: Binding, A: Access> FromRequest for Kv<B, A> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: "kv", access: A::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place = const { place_of(&Declared { name: B::NAME, kind: "kv", access: A::WORD }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

/// A part of the entries whose keys begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<V> {
    /// Keys and values, in the order of the keys.
    pub entries: Vec<(Vec<u8>, V)>,
    /// After which key the next part begins; this is the last if absent.
    pub next: Option<Vec<u8>>,
}

impl<B: Binding, A: Access> Kv<B, A> {
    /// The value of a key, if there is one.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<B::Value>, DataError> {
        let request = KvRequest::Get { keys: vec![key.as_ref()] };
        match self.ask(&request).await?.reply(&request)? {
            KvReply::Values(values) => values.into_iter().next().flatten().map(value::<B>).transpose(),
            _ => Err(DataError::not_understood()),
        }
    }

    /// The values of these keys, in their order: up to 256.
    pub async fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<B::Value>>, DataError> {
        let keys: Vec<K> = keys.into_iter().collect();
        let request = KvRequest::Get { keys: keys.iter().map(AsRef::as_ref).collect() };
        match self.ask(&request).await?.reply(&request)? {
            KvReply::Values(values) => {
                values.into_iter().map(|found| found.map(value::<B>).transpose()).collect()
            }
            _ => Err(DataError::not_understood()),
        }
    }

    /// The first entries whose keys begin with `prefix`, and come after `after` if that is given: up to `limit`, which is 256 at most.
    pub async fn scan(
        &self,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Result<Page<B::Value>, DataError> {
        let request = KvRequest::Scan { prefix: prefix.as_ref(), after, limit };
        match self.ask(&request).await?.reply(&request)? {
            KvReply::Page { entries, next } => {
                let entries = entries.into_iter().map(|(key, found)| Ok((key.to_vec(), value::<B>(found)?)));
                Ok(Page {
                    entries: entries.collect::<Result<_, DataError>>()?,
                    next: next.map(<[u8]>::to_vec),
                })
            }
            _ => Err(DataError::not_understood()),
        }
    }

    pub(crate) async fn ask(&self, request: &KvRequest<'_>) -> Result<Answered, DataError> {
        ask(request.encode(self.place)).await.map(Answered)
    }
}

impl<B: Binding> Kv<B, Write> {
    /// Sets the value of a key.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: &B::Value) -> Result<(), DataError> {
        self.set(key.as_ref(), value, KvExpiry::Never).await
    }

    /// Sets the value of a key for so long, from the moment on at which it takes effect.
    pub async fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: &B::Value,
        time: Duration,
    ) -> Result<(), DataError> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.set(key.as_ref(), value, KvExpiry::AfterMs(ms)).await
    }

    /// Removes an entry, which need not be there.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), DataError> {
        self.ask(&KvRequest::Delete { key: key.as_ref() }).await.map(drop)
    }

    /// Adds to a whole number, and gives the sum; what is not there is 0.
    pub async fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, DataError> {
        let request = KvRequest::Increment { key: key.as_ref(), by };
        match self.ask(&request).await?.reply(&request)? {
            KvReply::Number(number) => Ok(number),
            _ => Err(DataError::not_understood()),
        }
    }

    /// Sets a value if the present one, written as JSON, is `expected`; without a value it is removed. Whether it was.
    pub async fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&B::Value>,
        value: Option<&B::Value>,
    ) -> Result<bool, DataError> {
        let (expected, value) = (expected.map(json).transpose()?, value.map(json).transpose()?);
        let (expected, value) = (expected.as_deref(), value.as_deref());
        let request = KvRequest::CompareAndSet { key: key.as_ref(), expected, value };
        match self.ask(&request).await?.reply(&request)? {
            KvReply::Changed(changed) => Ok(changed),
            _ => Err(DataError::not_understood()),
        }
    }

    async fn set(&self, key: &[u8], value: &B::Value, expiry: KvExpiry) -> Result<(), DataError> {
        self.ask(&KvRequest::Put { key, value: &json(value)?, expiry }).await.map(drop)
    }
}

/// What an operation that did what it was asked for gave.
pub(crate) struct Answered(Vec<u8>);

impl Answered {
    pub(crate) fn reply(&self, request: &KvRequest<'_>) -> Result<KvReply<'_>, DataError> {
        KvReply::decode(&self.0, request).ok_or_else(DataError::not_understood)
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, DataError> {
    serde_json::to_vec(value)
        .map_err(|error| DataError::here(format!("the value cannot be written as JSON: {error}")))
}

fn value<B: Binding>(json: &[u8]) -> Result<B::Value, DataError> {
    let wrong = |error| {
        DataError::here(format!("a value of `{}` is not of the type of the binding: {error}", B::NAME))
    };
    serde_json::from_slice(json).map_err(wrong)
}
