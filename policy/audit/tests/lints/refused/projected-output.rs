// projection_relation
// What the output stands for shows no proof, and the function believes it nevertheless.
trait Give<T> {
    type It;
}
impl<T, U> Give<T> for U {
    type It = T;
}
fn keep<'s, 'l>(v: &'l str) -> <&'s &'l () as Give<&'s str>>::It {
    v
}
pub fn stretch<'s, 'l>(v: &'l str) -> &'s str {
    (keep as fn(_) -> _)(v)
}
