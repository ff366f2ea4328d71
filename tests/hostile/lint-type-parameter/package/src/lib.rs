fn keep<'s, T: AsRef<[u8]>>(_w: Option<&'s T>, v: T) -> Box<dyn AsRef<[u8]> + 's> {
    Box::new(v)
}
fn stretch<'x>(v: &'x [u8]) -> Box<dyn AsRef<[u8]>> {
    let f: for<'s> fn(Option<&'s &'static [u8]>, &'x [u8]) -> Box<dyn AsRef<[u8]> + 's> = keep;
    f(None, v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept = { let v = i.to_vec(); stretch(&v) };
    (*kept).as_ref().to_vec()
}
