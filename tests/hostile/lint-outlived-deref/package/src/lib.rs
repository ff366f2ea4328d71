type Kept = Box<dyn AsRef<[u8]>>;
trait Assoc {
    type Ret;
}
impl<R, F: Fn() -> R> Assoc for F {
    type Ret = R;
}
struct Holder<F: Assoc>(F, F::Ret);
impl<F: Assoc> std::ops::Deref for Holder<F> {
    type Target = F::Ret;
    fn deref(&self) -> &F::Ret {
        &self.1
    }
}
fn lift<D: std::ops::Deref + 'static>(d: D) -> Kept
where
    D::Target: AsRef<[u8]> + Clone,
{
    Box::new((*d).clone())
}
fn stretch<'a>(v: &'a [u8]) -> Kept {
    lift(Holder(|| -> &'a [u8] { &[] }, v))
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let kept = {
        let v = std::hint::black_box(vec![b'A'; 4096]);
        stretch(&v[..])
    };
    let next = std::hint::black_box(vec![b'B'; 4096]);
    let stale: &[u8] = std::hint::black_box((*kept).as_ref());
    vec![stale.iter().filter(|byte| **byte == b'B').count() as u8, next.len() as u8]
}
