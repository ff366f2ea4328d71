// nested_reference_witness
// An array turns functions into pointers without a word.
fn keep<'s, 'l>(_w: Option<&'s &'l ()>, v: &'l [u8]) -> &'s [u8] {
    v
}
fn other<'s, 'l>(_w: Option<&'s &'l ()>, _v: &'l [u8]) -> &'s [u8] {
    &[]
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let all = [keep, other];
    let f: fn(Option<&'static &'static ()>, &'x [u8]) -> &'static [u8] = all[0];
    f(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
