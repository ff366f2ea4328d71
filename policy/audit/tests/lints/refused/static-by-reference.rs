// outlived_projection
// A reference says how long the iterator lives.
fn lift<'s, I: Iterator>(_i: &'s I, v: I::Item) -> Box<dyn AsRef<[u8]> + 's>
where
    I::Item: AsRef<[u8]>,
{
    Box::new(v)
}
fn stretch<'a>(v: &'a [u8]) -> Box<dyn AsRef<[u8]>> {
    let i = Box::leak(Box::new(std::iter::from_fn(|| -> Option<&'a [u8]> { None })));
    lift(i, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept = { let v = i.to_vec(); stretch(&v) };
    (*kept).as_ref().to_vec()
}
