type Kept = Box<dyn AsRef<[u8]>>;
trait Lift: Iterator {
    const LIFT: fn(Self::Item) -> Kept;
}
impl<I: Iterator + 'static> Lift for I
where
    I::Item: AsRef<[u8]>,
{
    const LIFT: fn(I::Item) -> Kept = |v| Box::new(v);
}
fn with<I: Lift>(_: &I, v: I::Item) -> Kept {
    I::LIFT(v)
}
fn stretch<'a>(v: &'a [u8]) -> Kept {
    with(&std::iter::from_fn(|| -> Option<&'a [u8]> { None }), v)
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
