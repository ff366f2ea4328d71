// outlived_projection
// `Any` says `static` without the word.
use std::any::Any;
fn lift<I: Iterator + Any>(_i: I, v: I::Item) -> Box<dyn AsRef<[u8]>>
where
    I::Item: AsRef<[u8]>,
{
    Box::new(v)
}
fn stretch<'a>(v: &'a [u8]) -> Box<dyn AsRef<[u8]>> {
    lift(std::iter::from_fn(|| -> Option<&'a [u8]> { None }), v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept = { let v = i.to_vec(); stretch(&v) };
    (*kept).as_ref().to_vec()
}
