//! Which code was at an address: ELF files, memory dumps, symbols, source lines.

#![deny(unsafe_code)]

use backsight_core::{Address, MemorySpace};

/// Anything that knows the code of the traced program.
pub trait Code {
    /// The bytes from `address` on, as many as lie together, as seen from `space`; `None` where there is none.
    /// Never empty.
    fn bytes_at(&self, space: MemorySpace, address: Address) -> Option<&[u8]>;
}

impl<T: Code + ?Sized> Code for &T {
    fn bytes_at(&self, space: MemorySpace, address: Address) -> Option<&[u8]> {
        (**self).bytes_at(space, address)
    }
}
