// nested_reference_witness
// The function is used under another name.
mod inner {
    pub fn keep<'s, 'l>(_w: Option<&'s &'l ()>, v: &'l [u8]) -> &'s [u8] {
        v
    }
}
use inner::keep as honest;
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let f: for<'q> fn(Option<&'static &'q ()>, &'q [u8]) -> &'static [u8] = honest;
    let g: fn(Option<&'static &'static ()>, &'x [u8]) -> &'static [u8] = f;
    g(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
