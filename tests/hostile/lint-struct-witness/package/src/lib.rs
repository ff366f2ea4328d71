struct Both<'s, 'l>(&'s &'l ());
fn keep<'s, 'l>(_w: Option<Both<'s, 'l>>, v: &'l [u8]) -> &'s [u8] {
    v
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'q> fn(Option<Both<'static, 'q>>, &'q [u8]) -> &'static [u8] = keep;
    let g: fn(Option<Both<'static, 'static>>, &'x [u8]) -> &'static [u8] = f;
    g(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
