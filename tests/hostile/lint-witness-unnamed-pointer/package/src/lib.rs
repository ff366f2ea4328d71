fn keep<'s, 'l>(_: Option<&'s &'l ()>, v: &'l [u8]) -> &'s [u8] {
    v
}
fn first(_: Option<&'static &'static ()>, _: &[u8]) -> &'static [u8] {
    &[]
}
fn second(_: Option<&'static &'static ()>, _: &[u8]) -> &'static [u8] {
    &[0]
}
fn stretch(v: &[u8]) -> &'static [u8] {
    let mut pointers = [first, second].to_vec();
    pointers.push(keep);
    pointers[2](None, v)
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let kept = {
        let v = std::hint::black_box(vec![b'A'; 4096]);
        stretch(&v[..])
    };
    let next = std::hint::black_box(vec![b'B'; 4096]);
    let stale: &[u8] = std::hint::black_box(kept);
    vec![stale.iter().filter(|byte| **byte == b'B').count() as u8, next.len() as u8]
}
