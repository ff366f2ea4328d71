// blanket_over_object
// The object is that of a subtrait.
trait Give<D> {
    type Out;
}
trait Sub<D>: Give<D> {}
impl<D, T: ?Sized> Give<D> for T {
    type Out = D;
}
fn through<D, T: ?Sized>(x: <T as Give<D>>::Out) -> D {
    x
}
fn morph<S, D>(s: S) -> D {
    through::<D, dyn Sub<D, Out = S>>(s)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    vec![*morph::<usize, &'static u8>(i.len())]
}
