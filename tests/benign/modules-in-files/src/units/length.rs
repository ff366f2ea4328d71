//! Lengths, by their metres.
macro_rules! lengths {
    ($($variant:ident $name:literal $metres:expr;)+) => {
        #[derive(Debug, Clone, Copy)]
        pub(in crate::units) enum Length { $($variant),+ }

        impl Length {
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            pub(super) const fn metres(self) -> f64 {
                match self { $(Self::$variant => $metres),+ }
            }
        }

        pub(super) fn by_name(name: &str) -> Option<Length> {
            [$(Length::$variant),+].into_iter().find(|unit| unit.name() == name)
        }
    };
}

lengths! {
    Metre "m" 1.0;
    Centimetre "cm" 0.01;
    Kilometre "km" 1000.0;
    Mile "mi" 1609.344;
}
