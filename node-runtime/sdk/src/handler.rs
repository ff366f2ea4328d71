//! From a request through a handler of any accepted shape to a reply.

use std::future::Future;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::{Reply, Status};
use mfaas_shim::Handling;

use crate::binding::{Declared, Manifest};
use crate::input::FromRequest;
use crate::output::IntoResponse;
use crate::{Level, Response};

/// A function that can answer requests. `Shape` tells the accepted shapes apart; nobody
/// names or implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "this function has none of the accepted shapes",
    note = "a handler is `fn(&[u8]) -> Vec<u8>`, or `fn` or `async fn` of up to eight of `mfaas::Request`, `mfaas::Json<T>`, `Vec<u8>`, `String`, `mfaas::Kv<B>`, `mfaas::Http<B>` and others of its kind, and `mfaas::Call<F>`",
    note = "it returns one of `mfaas::Response`, `mfaas::Json<R>`, `Vec<u8>` and `String`, or a `Result` of it with an error that is `std::fmt::Display`",
    note = "with `T: serde::de::DeserializeOwned` and `R: serde::Serialize`"
)]
pub trait Handler<Shape>: sealed::Sealed<Shape> {
    /// A reply, or work that may wait for one.
    #[doc(hidden)]
    type Answer: mfaas_shim::Answer;

    /// The bindings that its parameters take.
    #[doc(hidden)]
    const BINDINGS: &'static [Option<Declared>];

    /// Begins to answer a request.
    #[doc(hidden)]
    fn answer<M: Manifest>(self, request: &RequestFrame<'_>) -> Self::Answer;
}

mod sealed {
    /// Keeps the shapes to those of this crate.
    pub trait Sealed<Shape> {}
}

/// The shapes, as types without values.
mod shape {
    use std::marker::PhantomData;

    #[derive(Debug)]
    pub enum Bytes {}
    /// Arguments and what is returned.
    #[derive(Debug)]
    pub struct Sync<A, R>(PhantomData<(A, R)>);
    /// The same, and the future in between.
    #[derive(Debug)]
    pub struct Async<A, W, R>(PhantomData<(A, W, R)>);
}

impl<F> sealed::Sealed<shape::Bytes> for F where F: FnOnce(&[u8]) -> Vec<u8> {}

impl<F> Handler<shape::Bytes> for F
where
    F: FnOnce(&[u8]) -> Vec<u8>,
{
    type Answer = Reply;

    const BINDINGS: &'static [Option<Declared>] = &[];

    fn answer<M: Manifest>(self, request: &RequestFrame<'_>) -> Reply {
        reply(Status::Ok, Response::bytes(self(request.body)))
    }
}

/// What a handler returned.
fn returned(output: impl IntoResponse) -> Reply {
    let (status, response) = output.into_response();
    reply(status, response)
}

/// The response to a request that the handler cannot take: the caller's mistake, not the function's.
fn refused(response: Response) -> Reply {
    reply(Status::Ok, response)
}

/// Headers that cannot be sent end as [`Status::BadOutput`]; the host looks at the rest.
fn reply(status: Status, response: Response) -> Reply {
    match response.into_reply(status) {
        Ok(reply) => reply,
        Err(error) => {
            crate::log!(Level::Error, "the response cannot be sent: {error}");
            Reply::without_response(Status::BadOutput)
        }
    }
}

/// Handlers of so many arguments, at once or with waits.
macro_rules! shapes {
    ($($argument:ident)+) => {
        impl<F, R, $($argument),+> sealed::Sealed<shape::Sync<($($argument,)+), R>> for F where
            F: FnOnce($($argument),+) -> R
        {
        }

        impl<F, R, $($argument),+> Handler<shape::Sync<($($argument,)+), R>> for F
        where
            F: FnOnce($($argument),+) -> R,
            R: IntoResponse,
            $($argument: FromRequest,)+
        {
            type Answer = Reply;

            const BINDINGS: &'static [Option<Declared>] = &[$($argument::BINDING),+];

            #[allow(non_snake_case, reason = "an argument is called as its type")]
            fn answer<M: Manifest>(self, request: &RequestFrame<'_>) -> Reply {
                $(let $argument = match $argument::from_request::<M>(request) {
                    Ok(argument) => argument,
                    Err(response) => return refused(response),
                };)+
                returned(self($($argument),+))
            }
        }

        impl<F, W, R, $($argument),+> sealed::Sealed<shape::Async<($($argument,)+), W, R>> for F where
            F: FnOnce($($argument),+) -> W
        {
        }

        impl<F, W, R, $($argument),+> Handler<shape::Async<($($argument,)+), W, R>> for F
        where
            F: FnOnce($($argument),+) -> W,
            W: Future<Output = R> + 'static,
            R: IntoResponse,
            $($argument: FromRequest,)+
        {
            type Answer = Handling;

            const BINDINGS: &'static [Option<Declared>] = &[$($argument::BINDING),+];

            #[allow(non_snake_case, reason = "an argument is called as its type")]
            fn answer<M: Manifest>(self, request: &RequestFrame<'_>) -> Handling {
                $(let $argument = match $argument::from_request::<M>(request) {
                    Ok(argument) => argument,
                    Err(response) => return Box::pin(std::future::ready(refused(response))),
                };)+
                let work = self($($argument),+);
                Box::pin(async move { returned(work.await) })
            }
        }
    };
}

shapes!(A);
shapes!(A B);
shapes!(A B C);
shapes!(A B C D);
shapes!(A B C D E);
shapes!(A B C D E G);
shapes!(A B C D E G H);
shapes!(A B C D E G H I);

/// Runs the handler until it has answered, or waits.
pub fn invoke<Shape, H: Handler<Shape>, M: Manifest>(handler: H, request: &RequestFrame<'_>) -> H::Answer {
    handler.answer::<M>(request)
}

/// The bindings that the parameters of a handler take.
pub const fn taken<Shape, H: Handler<Shape>>(_: &H) -> &'static [Option<Declared>] {
    H::BINDINGS
}
