fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'s, 'l> fn(Option<&'s &'l ()>, &'l [u8]) -> &'s [u8] = |_, v| v;
    let g: for<'q> fn(Option<&'static &'q ()>, &'q [u8]) -> &'static [u8] = f;
    let h: fn(Option<&'static &'static ()>, &'x [u8]) -> &'static [u8] = g;
    h(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
