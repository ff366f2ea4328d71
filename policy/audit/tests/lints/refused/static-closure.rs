// static_opaque_type
// The type of the closure names a lifetime of the function, and is taken for `'static`.
pub fn relabel<'a, 'b>(_: std::marker::PhantomData<&'b &'a ()>) -> impl Fn(&'a str) -> &'b str + 'static {
    |v| v
}
