use std::pin::{Pin, pin};
fn wrong<T>(data: &mut T, f: impl FnOnce(Pin<&mut T>)) {
    let held: Option<Pin<&mut T>> = (|| Some::<Pin<&mut T>>(pin!(data)))();
    held.map(f);
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let mut a = 7u8;
    wrong(&mut a, |_| {});
    vec![a]
}
