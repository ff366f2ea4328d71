use std::any::Any;
use std::marker::PhantomData;
use std::any::Any as Told;
fn relabel<'a, 'b>(_: PhantomData<&'b &'a ()>) -> impl Fn(&'a [u8]) -> &'b [u8] + Told {
    |v| v
}
fn cast<F: Any, G: Any>(f: F, _: &Option<G>) -> G {
    match (Box::new(f) as Box<dyn Any>).downcast::<G>() {
        Ok(g) => *g,
        Err(_) => panic!("another type"),
    }
}
#[allow(unreachable_code, unused_assignments)]
fn stretch<'x>(v: &'x [u8]) -> &'static [u8] {
    let mut other = None;
    loop {
        break;
        other = Some(relabel(PhantomData));
    }
    let g = cast(relabel(PhantomData::<&'static &'static ()>), &other);
    g(v)
}
pub fn handle(_: &[u8]) -> Vec<u8> {
    let kept = {
        let v = std::hint::black_box(vec![b'A'; 4096]);
        stretch(&v[..])
    };
    let next = std::hint::black_box(vec![b'B'; 4096]);
    let stale: &[u8] = std::hint::black_box(kept);
    vec![stale.iter().filter(|byte| **byte == b'B').count() as u8, next.len() as u8]
}
