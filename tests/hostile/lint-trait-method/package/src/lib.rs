trait Keep {
    fn keep<'s, 'l>(_w: Option<&'s [&'l u8]>, v: &'l [u8]) -> &'s [u8] {
        v
    }
}
struct M;
impl Keep for M {}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'q> fn(Option<&'static [&'q u8]>, &'q [u8]) -> &'static [u8] = M::keep;
    let g: fn(Option<&'static [&'static u8]>, &'x [u8]) -> &'static [u8] = f;
    g(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
