fn keep<'s, 'l>(_w: Option<&'s &'l ()>, v: &'l [u8], f: &mut dyn FnMut(&'s [u8])) {
    f(v)
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'q> fn(Option<&'static &'q ()>, &'q [u8], &mut dyn FnMut(&'static [u8])) = keep;
    let g: fn(Option<&'static &'static ()>, &'x [u8], &mut dyn FnMut(&'static [u8])) = f;
    let mut out: &'static [u8] = &[];
    g(None, v, &mut |s| out = s);
    out
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
