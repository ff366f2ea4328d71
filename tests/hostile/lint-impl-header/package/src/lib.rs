trait Unit {
    type Type;
}
impl<T: ?Sized> Unit for T {
    type Type = ();
}
trait Stretch<'l, 's> {
    fn go(self, v: &'l [u8]) -> &'s [u8];
}
impl<'l, 's> Stretch<'l, 's> for <&'s &'l () as Unit>::Type
where
    for<'a, 'b> &'a &'b (): Unit,
{
    fn go(self, v: &'l [u8]) -> &'s [u8] {
        v
    }
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    <() as Stretch<'x, 'static>>::go((), v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
