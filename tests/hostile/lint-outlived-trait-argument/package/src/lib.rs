type Kept = Box<dyn AsRef<[u8]>>;
trait Returned<F> {
    type It;
}
impl<R, F: Fn() -> R> Returned<F> for () {
    type It = R;
}
fn lift<F: 'static>(_: &F, v: <() as Returned<F>>::It) -> Kept
where
    (): Returned<F, It: AsRef<[u8]>>,
{
    Box::new(v)
}
fn stretch<'a>(v: &'a [u8]) -> Kept {
    lift(&|| -> &'a [u8] { &[] }, v)
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let kept = {
        let v = std::hint::black_box(vec![b'A'; 4096]);
        stretch(&v[..])
    };
    let next = std::hint::black_box(vec![b'B'; 4096]);
    let stale: &[u8] = std::hint::black_box((*kept).as_ref());
    vec![stale.iter().filter(|byte| **byte == b'B').count() as u8, next.len() as u8]
}
