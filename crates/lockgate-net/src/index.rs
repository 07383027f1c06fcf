//! Indexes as types: each kind of thing has its own, so that none is looked up by the index of
//! another.

/// Declares the type of the indexes of one kind of thing.
#[macro_export]
macro_rules! index_type {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(usize);

        impl $name {
            /// The index with this number.
            pub const fn new(number: usize) -> Self {
                Self(number)
            }

            /// Its number.
            pub const fn get(self) -> usize {
                self.0
            }

            /// All things with their indexes.
            pub fn enumerate<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = (Self, T)> {
                all.into_iter().enumerate().map(|(number, one)| (Self(number), one))
            }
        }
    )+};
}
