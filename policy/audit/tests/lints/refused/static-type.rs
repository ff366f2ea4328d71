// nested_reference_witness
// The type demands `static`, and shows no reference.
struct Proof<'l: 'static>(&'l ());
fn keep<'l>(_w: Option<Proof<'l>>, v: &'l [u8]) -> &'static [u8] {
    v
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'q> fn(Option<Proof<'q>>, &'q [u8]) -> &'static [u8] = keep;
    let g: fn(Option<Proof<'static>>, &'x [u8]) -> &'static [u8] = f;
    g(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
