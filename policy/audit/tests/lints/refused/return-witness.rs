// nested_reference_witness
// The proof stands in the return type, in an array without elements.
fn keep<'s, 'l>(v: &'l [u8]) -> (&'s [u8], [&'s &'l (); 0]) {
    (v, [])
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'q> fn(&'q [u8]) -> (&'static [u8], [&'static &'q (); 0]) = keep;
    f(v).0
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
