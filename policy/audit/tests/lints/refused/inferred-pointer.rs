// nested_reference_witness
// The pointer is told no more than `_`.
fn keep<'s, 'l>(_w: &'s &'l (), v: &'l [u8]) -> &'s [u8] {
    v
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: fn(_, &[u8]) -> &'static [u8] = keep;
    f(&&(), v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
