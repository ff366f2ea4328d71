//! Values by key in the memory of a node.

use std::time::Duration;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::{KvReply, KvRequest};

use crate::binding::{Access, Binding, DataError, Declared, Manifest, Read, Write, place_of};
use crate::input::FromRequest;
use crate::{Kv, Response};

/// Values by key in the memory of the node that runs the function: a parameter of a handler.
///
/// ```
/// use mfaas::{Binding, Cache, Error, Kv, Write};
///
/// struct Rates;
///
/// impl Binding for Rates {
///     const NAME: &'static str = "rates";
///     type Value = f64;
/// }
///
/// struct Recent;
///
/// impl Binding for Recent {
///     const NAME: &'static str = "recent";
///     type Value = f64;
/// }
///
/// pub async fn handle(currency: String, rates: Kv<Rates>, recent: Cache<Recent, Write>) -> Result<String, Error> {
///     if let Some(rate) = recent.get(&currency).await? {
///         return Ok(rate.to_string());
///     }
///     let rate = rates.get(&currency).await?.unwrap_or(1.0);
///     recent.put_for(&currency, &rate, std::time::Duration::from_secs(60)).await?;
///     Ok(rate.to_string())
/// }
/// # let answer = mfaas::testing::block_on(handle("eur".to_owned(), mfaas::testing::kv(), mfaas::testing::cache()));
/// # assert_eq!(answer.unwrap(), "1");
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.recent]
/// kind = "cache"
/// access = "write"
/// ```
///
/// A value may be gone at any time, and each node has its own. What a call changes is there for others when its handler has returned
/// without an error, and never otherwise.
pub struct Cache<B, A = Read> {
    values: Kv<B, A>,
}

impl<B, A> Cache<B, A> {
    pub(crate) fn at(place: u32) -> Self {
        Self { values: Kv::at(place) }
    }
}

impl<B: Binding, A> std::fmt::Debug for Cache<B, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cache").field(&B::NAME).finish()
    }
}

/// Takes nothing of the request.
impl<B: Binding, A: Access> FromRequest for Cache<B, A> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: "cache", access: A::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: B::NAME, kind: "cache", access: A::WORD }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

impl<B: Binding, A: Access> Cache<B, A> {
    /// The value of a key, if it is there and of the type of the binding.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<B::Value>, DataError> {
        Ok(self.get_many([key]).await?.into_iter().next().flatten())
    }

    /// The values of these keys, in their order: up to 256.
    pub async fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<B::Value>>, DataError> {
        let keys: Vec<K> = keys.into_iter().collect();
        let request = KvRequest::Get { keys: keys.iter().map(AsRef::as_ref).collect() };
        match self.values.ask(&request).await?.reply(&request)? {
            // What another version has put there, with another type, is as good as gone.
            KvReply::Values(values) => {
                Ok(values.into_iter().map(|found| serde_json::from_slice(found?).ok()).collect())
            }
            _ => Err(DataError::not_understood()),
        }
    }
}

impl<B: Binding> Cache<B, Write> {
    /// Sets the value of a key, until there is no room for it.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: &B::Value) -> Result<(), DataError> {
        self.values.put(key, value).await
    }

    /// Sets the value of a key for so long at most, from the moment on at which others see it.
    pub async fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: &B::Value,
        time: Duration,
    ) -> Result<(), DataError> {
        self.values.put_for(key, value, time).await
    }

    /// Removes a value, which need not be there.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), DataError> {
        self.values.delete(key).await
    }
}
