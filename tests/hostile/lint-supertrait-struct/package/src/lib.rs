struct Both<'s, 'l>(&'s &'l ());
trait Stretch<'l, 's> {
    fn go(v: &'l [u8]) -> &'s [u8];
}
trait Guarded<'l, 's, W>: Stretch<'l, 's> {}
struct M;
impl<'l, 's> Guarded<'l, 's, Both<'s, 'l>> for M {}
impl<'l, 's> Stretch<'l, 's> for M
where
    'l: 's,
{
    fn go(v: &'l [u8]) -> &'s [u8] {
        v
    }
}
fn outer<'l, 's, S: for<'a, 'b> Guarded<'a, 'b, Both<'b, 'a>>>(v: &'l [u8]) -> &'s [u8] {
    inner::<S>(v)
}
fn inner<'l, 's, S: for<'a, 'b> Stretch<'a, 'b>>(v: &'l [u8]) -> &'s [u8] {
    S::go(v)
}
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    outer::<M>(v)
}
pub fn handle(i: &[u8]) -> Vec<u8> {
    let kept: &'static [u8] = { let v = i.to_vec(); stretch(&v[..]) };
    kept.to_vec()
}
