// nested_lifetime_witness
// An argument whose parameter is a pointer to a function.
fn keep<'s, 'l>(_: &'s &'l (), v: &'l [u8]) -> &'s [u8] {
    v
}
fn pass(f: fn(&'static &'static (), &[u8]) -> &'static [u8], v: &[u8]) -> &'static [u8] {
    f(&&(), v)
}
pub fn stretch(v: &[u8]) -> &'static [u8] {
    pass(keep, v)
}
