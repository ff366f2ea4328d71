// Blanket impls and trait objects that do not meet.
pub trait Named {
    fn name(&self) -> String;
}

impl<T: std::fmt::Debug + ?Sized> Named for T {
    fn name(&self) -> String {
        format!("{self:?}")
    }
}

pub trait Source {
    type Out;
    fn get(&self) -> Self::Out;
}

impl<T: Clone> Source for Vec<T> {
    type Out = Option<T>;
    fn get(&self) -> Option<T> {
        self.first().cloned()
    }
}

pub fn first(source: &dyn Source<Out = Option<u8>>, named: &dyn Named) -> (Option<u8>, String) {
    (source.get(), named.name())
}
