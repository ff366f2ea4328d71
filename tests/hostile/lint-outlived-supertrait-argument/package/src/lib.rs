type Kept = Box<dyn AsRef<[u8]>>;
trait Lasting<'a>: 'a {}
impl<'a, T: 'a> Lasting<'a> for T {}
fn lift<I: Iterator<Item: AsRef<[u8]>> + Lasting<'static>>(mut items: I) -> Kept {
    Box::new(items.next().unwrap())
}
fn stretch<'a>(v: &'a [u8]) -> Kept {
    let mut items = std::iter::from_fn(|| -> Option<&'a [u8]> { Some(&[]) }).peekable();
    *items.peek_mut().unwrap() = v;
    lift(items)
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
