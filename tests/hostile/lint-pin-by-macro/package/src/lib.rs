use std::pin::Pin;
macro_rules! hold {
    ($v:expr) => {
        std::pin::pin!($v)
    };
}
fn wrong<T>(data: &mut T, f: impl FnOnce(Pin<&mut T>)) {
    let p: Pin<&mut T> = hold!(data);
    f(p)
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let mut a = 7u8;
    wrong(&mut a, |_| {});
    vec![a]
}
