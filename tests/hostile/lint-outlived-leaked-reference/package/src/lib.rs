fn lift<'a, I: Iterator>(items: &'a mut I) -> &'a [u8]
where
    I::Item: AsRef<[u8]>,
{
    let leaked: &'a I::Item = Box::leak(Box::new(items.next().unwrap()));
    leaked.as_ref()
}
fn stretch<'a>(v: &'a [u8]) -> &'static [u8] {
    let mut items = std::iter::from_fn(|| -> Option<&'a [u8]> { Some(&[]) }).peekable();
    *items.peek_mut().unwrap() = v;
    lift(Box::leak(Box::new(items)))
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
