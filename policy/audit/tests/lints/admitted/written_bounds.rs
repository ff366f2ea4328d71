// The relation is written down, so every use of the function checks it.
fn keep<'s, 'l: 's>(_: &'s &'l (), v: &'l str) -> &'s str {
    v
}

fn held<'s, 'l>(_: &'s &'l (), v: &'l str) -> &'s str
where
    'l: 's,
{
    v
}

pub fn values() -> usize {
    let f = keep;
    let g = held;
    f(&&(), "a").len() + g(&&(), "b").len()
}
