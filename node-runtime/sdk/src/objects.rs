//! Bytes by name.

use std::marker::PhantomData;
use std::ops::Range;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::limits::OBJECT_PIECE_BYTES_MAX;
use mfaas_abi::{ObjectReply, ObjectRequest};

use crate::Response;
use crate::binding::{
    Access, Binding, DataError, Declared, Manifest, Read, Write, ask, ask_together, new_number, place_of,
    split_last, text,
};
use crate::input::FromRequest;

/// Bytes by name, in a resource of the site that the function binds: a parameter of a handler.
///
/// ```
/// use mfaas::{Binding, Error, Objects, Write};
///
/// struct Notes;
///
/// impl Binding for Notes {
///     const NAME: &'static str = "notes";
///     type Value = ();
/// }
///
/// pub async fn handle(text: String, notes: Objects<Notes, Write>) -> Result<String, Error> {
///     let before = notes.get("today.txt").await?.unwrap_or_default();
///     let all = [before, text.into_bytes(), b"\n".to_vec()].concat();
///     notes.put("today.txt", &all).await?;
///     Ok(format!("{} bytes", all.len()))
/// }
/// # let answer = mfaas::testing::block_on(handle("a".to_owned(), mfaas::testing::objects()));
/// # assert_eq!(answer.unwrap(), "2 bytes");
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.notes]
/// kind = "object"
/// access = "write"
/// ```
///
/// An object has up to 32 MiB. What a call changes takes effect as changes of key-value data do, and together with them: at once, when its
/// handler has returned without an error, and not at all otherwise or if another call has changed meanwhile what this one has read.
/// What a call has read of an object stays the same for it.
pub struct Objects<B, A = Read> {
    place: u32,
    marker: PhantomData<fn() -> (B, A)>,
}

impl<B, A> Objects<B, A> {
    pub(crate) fn at(place: u32) -> Self {
        Self { place, marker: PhantomData }
    }
}

impl<B: Binding, A> std::fmt::Debug for Objects<B, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Objects").field(&B::NAME).finish()
    }
}

/// Takes nothing of the request.
impl<B: Binding, A: Access> FromRequest for Objects<B, A> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: "object", access: A::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: B::NAME, kind: "object", access: A::WORD }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

/// A part of the objects whose names begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Names and sizes in bytes, in the order of the names.
    pub objects: Vec<(String, u64)>,
    /// After which name the next part begins; this is the last if absent.
    pub next: Option<String>,
}

impl<B: Binding, A: Access> Objects<B, A> {
    /// How many bytes an object has, if there is one of that name.
    pub async fn size(&self, name: impl AsRef<str>) -> Result<Option<u64>, DataError> {
        let request = ObjectRequest::Size { name: name.as_ref().as_bytes() };
        match self.ask(&request).await?.reply(&request)? {
            ObjectReply::Size(size) => Ok(size),
            _ => Err(DataError::not_understood()),
        }
    }

    /// All bytes of an object, if there is one of that name.
    pub async fn get(&self, name: impl AsRef<str>) -> Result<Option<Vec<u8>>, DataError> {
        self.get_range(name, 0..u64::MAX).await
    }

    /// Those bytes of an object that it has in a range, if there is one of that name.
    pub async fn get_range(
        &self,
        name: impl AsRef<str>,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, DataError> {
        let name = name.as_ref().as_bytes();
        let request = |offset: u64, end: u64| {
            let bytes = end.saturating_sub(offset).min(OBJECT_PIECE_BYTES_MAX as u64) as u32;
            ObjectRequest::Read { name, offset, bytes }
        };
        let first = request(range.start, range.end);
        let answered = self.ask(&first).await?;
        let Some((total, piece)) = answered.piece(&first)? else { return Ok(None) };
        let end = range.end.min(total);
        let mut got = Vec::with_capacity(end.saturating_sub(range.start) as usize);
        got.extend_from_slice(piece);
        let rest = (range.start..end).step_by(OBJECT_PIECE_BYTES_MAX).skip(1);
        let requests = rest.map(|offset| request(offset, end).encode(self.place));
        // What a call has read of an object stays the same: none of its pieces is shorter, and it has as many bytes as before.
        ask_together(requests, |answered| match Answered(answered).piece(&first)? {
            Some((same, piece)) if same == total => {
                got.extend_from_slice(piece);
                Ok(())
            }
            _ => Err(DataError::not_understood()),
        })
        .await?;
        if got.len() as u64 == end.saturating_sub(range.start) {
            Ok(Some(got))
        } else {
            Err(DataError::not_understood())
        }
    }

    /// The first objects whose names begin with `prefix`, and come after `after` if that is given: up to `limit`, which is 256 at most.
    pub async fn list(
        &self,
        prefix: impl AsRef<str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Listing, DataError> {
        let after = after.map(str::as_bytes);
        let request = ObjectRequest::List { prefix: prefix.as_ref().as_bytes(), after, limit };
        match self.ask(&request).await?.reply(&request)? {
            ObjectReply::Page { objects, next } => {
                let objects = objects.into_iter().map(|(name, bytes)| Ok((text(name)?, bytes)));
                Ok(Listing {
                    objects: objects.collect::<Result<_, DataError>>()?,
                    next: next.map(text).transpose()?,
                })
            }
            _ => Err(DataError::not_understood()),
        }
    }

    async fn ask(&self, request: &ObjectRequest<'_>) -> Result<Answered, DataError> {
        ask(request.encode(self.place)).await.map(Answered)
    }
}

impl<B: Binding> Objects<B, Write> {
    /// Makes an object of these bytes, in the place of the one of that name if there is one.
    pub async fn put(&self, name: impl AsRef<str>, bytes: impl AsRef<[u8]>) -> Result<(), DataError> {
        let (name, bytes) = (name.as_ref().as_bytes(), bytes.as_ref());
        let (before, last) = split_last(bytes, OBJECT_PIECE_BYTES_MAX);
        let upload = (!before.is_empty()).then(new_number);
        let appends = before
            .chunks(OBJECT_PIECE_BYTES_MAX)
            .map(|bytes| ObjectRequest::Append { upload: upload.unwrap_or_default(), bytes });
        let requests = appends.chain(std::iter::once(ObjectRequest::Put { name, upload, bytes: last }));
        ask_together(requests.map(|request| request.encode(self.place)), |_| Ok(())).await
    }

    /// The same if there is no object of that name: whether there was none.
    pub async fn put_new(&self, name: impl AsRef<str>, bytes: impl AsRef<[u8]>) -> Result<bool, DataError> {
        if self.size(&name).await?.is_some() {
            return Ok(false);
        }
        self.put(name, bytes).await.map(|()| true)
    }

    /// Removes an object, which need not be there.
    pub async fn delete(&self, name: impl AsRef<str>) -> Result<(), DataError> {
        self.ask(&ObjectRequest::Delete { name: name.as_ref().as_bytes() }).await.map(drop)
    }
}

/// What an operation that did what it was asked for gave.
struct Answered(Vec<u8>);

impl Answered {
    fn reply(&self, request: &ObjectRequest<'_>) -> Result<ObjectReply<'_>, DataError> {
        ObjectReply::decode(&self.0, request).ok_or_else(DataError::not_understood)
    }

    /// The bytes that the object has, and some of them.
    fn piece(&self, request: &ObjectRequest<'_>) -> Result<Option<(u64, &[u8])>, DataError> {
        match self.reply(request)? {
            ObjectReply::Piece(piece) => Ok(piece),
            _ => Err(DataError::not_understood()),
        }
    }
}
