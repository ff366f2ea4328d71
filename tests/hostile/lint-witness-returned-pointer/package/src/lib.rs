trait Keep<'s>: Sized {
    type Slot;
    fn put(v: &'s [u8]) -> Self::Slot;
    fn keep() -> for<'l> fn(Option<&'s &'l ()>, &'l [u8]) -> Self::Slot {
        |_, v| Self::put(v)
    }
}
impl<'s> Keep<'s> for () {
    type Slot = &'s [u8];
    fn put(v: &'s [u8]) -> &'s [u8] {
        v
    }
}
fn stretch(v: &[u8]) -> &'static [u8] {
    let f: fn(_, &[u8]) -> &'static [u8] = <() as Keep<'static>>::keep();
    f(None, v)
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
