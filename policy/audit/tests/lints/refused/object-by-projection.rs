// projection_in_impl_header
// An impl for a trait object that coherence does not see.
trait Give<T> {
    type Out;
}
struct Name;
trait Named {
    type Is: ?Sized;
}
impl Named for Name {
    type Is = dyn Give<i32, Out = usize>;
}
type Object = <Name as Named>::Is;
impl<T> Give<T> for Object {
    type Out = &'static u8;
}
fn through<T>(x: <Object as Give<T>>::Out) -> &'static u8 {
    x
}
fn morph(x: usize) -> &'static u8 {
    through::<i32>(x)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    vec![*morph(i.len())]
}
