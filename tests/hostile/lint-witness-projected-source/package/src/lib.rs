trait Long<'l> {
    type Data;
    fn get(v: Self::Data) -> &'l [u8];
    fn keep<'s>(_: Option<&'s &'l ()>, v: Self::Data) -> &'s [u8] {
        Self::get(v)
    }
}
impl<'l> Long<'l> for () {
    type Data = &'l [u8];
    fn get(v: &'l [u8]) -> &'l [u8] {
        v
    }
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: fn(_, _) -> &'static [u8] = <() as Long<'x>>::keep;
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
