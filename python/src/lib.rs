//! The Python package `backsight`: what the library does, for Python.
//!
//! Everything that may take long is done on threads of their own, without the lock of the interpreter, and can be
//! interrupted. Tables leave through Arrow's PyCapsule interface, without a copy.

#![cfg(feature = "module")]

mod background;
mod capture;
mod error;
mod items;
mod piece;
mod profile;
mod record;
mod rows;
mod table;

/// What the package is made of; `backsight/__init__.py` gives it its public names.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::capture::{BufferObject, CaptureObject, SourceObject, open};
    #[pymodule_export]
    use crate::items::{EventItem, EventIterator, PacketItem, PacketIterator};
    #[pymodule_export]
    use crate::piece::{PieceObject, pieces};
    #[pymodule_export]
    use crate::profile::ProfileObject;
    #[pymodule_export]
    use crate::record::{RecordedObject, record};
    #[pymodule_export]
    use crate::rows::RowIterator;
    #[pymodule_export]
    use crate::table::{SchemaObject, TableObject, schema, tables};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("PROFILE_FORMATS", crate::profile::format_names())
    }
}
