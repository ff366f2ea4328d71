//! Bytes that never change, in the memory of the worker that runs the function.

use std::marker::PhantomData;
use std::ops::Deref;

use mfaas_abi::frame::RequestFrame;

use crate::Response;
use crate::binding::{Access, Binding, Declared, Manifest, Read, place_of};
use crate::input::FromRequest;

/// Bytes that never change: a parameter of a handler, which need not be `async`. To read them costs no wait and no copy.
///
/// ```
/// use mfaas::{Asset, Binding};
///
/// struct Words;
///
/// impl Binding for Words {
///     const NAME: &'static str = "words";
///     type Value = ();
/// }
///
/// pub fn handle(word: String, words: Asset<Words>) -> String {
///     let known = words.split(|byte| *byte == b'\n').any(|line| line == word.as_bytes());
///     if known { format!("{word} is a word") } else { format!("what is {word}?") }
/// }
/// # let words = mfaas::testing::asset(b"cat\ndog\n");
/// # assert_eq!(handle("dog".to_owned(), words), "dog is a word");
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.words]
/// kind = "asset"
/// ```
pub struct Asset<B> {
    bytes: &'static [u8],
    binding: PhantomData<fn() -> B>,
}

const KIND: &str = "asset";

impl<B> Asset<B> {
    pub(crate) const fn of(bytes: &'static [u8]) -> Self {
        Self { bytes, binding: PhantomData }
    }

    /// All of its bytes, for as long as the call lasts.
    pub const fn as_bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

impl<B> Deref for Asset<B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl<B: Binding> std::fmt::Debug for Asset<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asset").field("name", &B::NAME).field("bytes", &self.bytes.len()).finish()
    }
}

/// Takes nothing of the request.
impl<B: Binding> FromRequest for Asset<B> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: KIND, access: Read::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: B::NAME, kind: KIND, access: Read::WORD }, M::BINDINGS) };
        // No node runs a version without what its statement names.
        let missing = || Response::text("the asset is not there").with_status(500);
        mfaas_shim::asset(place).map(Self::of).ok_or_else(missing)
    }
}
