use std::pin::{Pin, pin};
fn wrong<T>(data: &mut T, f: impl FnOnce(Pin<&mut T>)) {
    struct One<P>(P);
    let One(p) = One::<Pin<&mut T>>(pin!(data));
    f(p)
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let mut a = 7u8;
    wrong(&mut a, |_| {});
    vec![a]
}
