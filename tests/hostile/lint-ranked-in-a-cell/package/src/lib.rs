trait Stretch<F, T> {
    fn go(v: F) -> T;
}
trait Guarded<F, T, W>: Stretch<F, T> {}
pub struct Both<'b, 'a>(pub Option<&'b &'a ()>);
struct M;
impl<'f, 't> Guarded<&'f [u8], &'t [u8], std::cell::Cell<Option<&'t &'f ()>>> for M {}
impl<'f, 't> Stretch<&'f [u8], &'t [u8]> for M
where
    'f: 't,
{
    fn go(v: &'f [u8]) -> &'t [u8] {
        v
    }
}
fn outer<'f, 't, S>(v: &'f [u8]) -> &'t [u8]
where
    S: for<'a, 'b> Guarded<&'a [u8], &'b [u8], std::cell::Cell<Option<&'b &'a ()>>>,
{
    inner::<S>(v)
}
fn inner<'f, 't, S>(v: &'f [u8]) -> &'t [u8]
where
    S: for<'a, 'b> Stretch<&'a [u8], &'b [u8]>,
{
    S::go(v)
}
fn stretch(v: &[u8]) -> &'static [u8] {
    outer::<M>(v)
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let kept = {
        let v = std::hint::black_box(vec![b'A'; 4096]);
        stretch(&v[..])
    };
    let next = std::hint::black_box(vec![b'B'; 4096]);
    let stale: &[u8] = std::hint::black_box(kept);
    vec![stale.iter().filter(|byte| **byte == b'B').count() as u8, next.len() as u8]
}
