//! Packets and events, one after the other.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::vec;

use backsight::core::describe::write_text;
use backsight::core::{Describe, Field, Value};
use backsight::decode::{Decode, Kind};
use backsight::{Capture, Event, OwnedItem, Packet};
use backsight_table::{Guard, Result};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::background::{Produced, StopFlag};
use crate::error;

/// Items that are handed over together.
const PORTION: usize = 1024;
/// Portions that may wait.
const PORTIONS: usize = 4;

type Portion<T> = Result<Vec<OwnedItem<T>>>;

/// A decode on a thread of its own, a few thousand items ahead of the thread that asks for them.
pub struct Items<T> {
    portions: Produced<Portion<T>>,
    portion: Mutex<vec::IntoIter<OwnedItem<T>>>,
}

impl<T: Copy + Send + 'static> Items<T> {
    /// Lets a decode run, which `choose` makes of the capture. That is to stay as it was until all has been read.
    pub fn new<K: Kind<Value = T>>(
        capture: Capture,
        guard: Option<Guard>,
        choose: impl FnOnce(&Capture) -> Decode<'_, K> + Send + 'static,
    ) -> Self {
        let stop = StopFlag::default();
        let flag = stop.shared();
        let portions = Produced::new(PORTIONS, stop, move |give| {
            let check = || guard.iter().try_for_each(Guard::check);
            if let Err(error) = check() {
                give(Err(error));
                return;
            }
            let mut items = Vec::with_capacity(PORTION);
            let outcome = choose(&capture).stop_on(flag).run(|item| {
                items.push(OwnedItem::from(&item));
                let is_wanted = items.len() < PORTION
                    || give(Ok(std::mem::replace(&mut items, Vec::with_capacity(PORTION))));
                if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            give(outcome.map_err(Into::into).and_then(|_| check()).map(|()| items));
        });
        Self { portions, portion: Mutex::default() }
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<OwnedItem<T>>> {
        loop {
            let next = self.portion.lock().unwrap_or_else(PoisonError::into_inner).next();
            if next.is_some() {
                return Ok(next);
            }
            let Some(portion) = self.portions.next(py)? else { return Ok(None) };
            let portion = portion.map_err(|error| error::of_table(&error))?.into_iter();
            *self.portion.lock().unwrap_or_else(PoisonError::into_inner) = portion;
        }
    }
}

/// A value as Python has it: numbers and addresses are `int`.
fn value_object<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Decimal(number) | Value::Hexadecimal(number) => number.into_pyobject(py)?.into_any(),
        Value::Padded(number, _) | Value::Bits(number, _) => number.into_pyobject(py)?.into_any(),
        Value::Wide(number) => number.into_pyobject(py)?.into_any(),
        Value::Address(address) => address.0.into_pyobject(py)?.into_any(),
        Value::Flag(set) => set.into_pyobject(py)?.to_owned().into_any(),
        Value::Word(word) => word.into_pyobject(py)?.into_any(),
        Value::Characters(number, count) => {
            let bytes = number.to_le_bytes();
            let bytes = bytes.get(..usize::from(count)).unwrap_or(&bytes);
            String::from_utf8_lossy(bytes).into_pyobject(py)?.into_any()
        }
        Value::Name(name) => name.as_str().into_pyobject(py)?.into_any(),
        Value::Absent => py.None().into_bound(py),
        Value::Outcomes(..) => value.to_string().into_pyobject(py)?.into_any(),
    })
}

fn fields<'py>(py: Python<'py>, described: &dyn Describe) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let mut outcome = Ok(());
    described.fields(&mut |Field { name, value, .. }| {
        if outcome.is_ok() {
            outcome = value_object(py, value).and_then(|value| dict.set_item(name, value));
        }
    });
    outcome.map(|()| dict)
}

fn field<'py>(
    py: Python<'py>,
    described: &dyn Describe,
    wanted: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut found = None;
    described.fields(&mut |Field { name, value, .. }| {
        // `context.level` is `context_level` as an attribute.
        if found.is_none() && (name == wanted || name.contains('.') && name.replace('.', "_") == wanted) {
            found = Some(value);
        }
    });
    found.map(|value| value_object(py, value)).transpose()
}

fn text<T: Describe>(item: &OwnedItem<T>, name: &str) -> String {
    let mut text = format!("{} {} ", item.source.id(), name);
    // A String takes everything.
    let _ = write_text(&item.value, &mut text);
    text.truncate(text.trim_end().len());
    text
}

macro_rules! item_class {
    ($(#[$about:meta])* $name:literal, $class:ident, $iterator:ident, $value:ty, { $($own:tt)* }) => {
        $(#[$about])*
        #[pyclass(frozen, module = "backsight", name = $name)]
        pub struct $class(OwnedItem<$value>);

        #[pymethods]
        impl $class {
            /// What kind of thing it is: the name that listings use.
            #[getter]
            fn kind(&self) -> &'static str {
                Describe::name(&self.0.value)
            }

            /// Trace ID of its source.
            #[getter]
            fn id(&self) -> u8 {
                self.0.source.id().get()
            }

            /// Name of the buffer.
            #[getter]
            fn buffer(&self) -> &str {
                self.0.source.buffer()
            }

            /// The hart, where the trace of the source says which; else 0.
            #[getter]
            fn hart(&self) -> u16 {
                self.0.sub_source
            }

            /// Position of the first byte in the buffer.
            #[getter]
            fn index(&self) -> u64 {
                self.0.position.unwrap_or(self.0.offset)
            }

            /// Offset of the first byte in the stream of the source.
            #[getter]
            fn offset(&self) -> u64 {
                self.0.offset
            }

            /// How many bytes of trace it is.
            #[getter]
            fn length(&self) -> u32 {
                self.0.length
            }

            /// Everything that it says: names as in the JSON listing, numbers and addresses as `int`.
            #[getter]
            fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                fields(py, &self.0.value)
            }

            fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
                field(py, &self.0.value, name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
            }

            fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
                field(py, &self.0.value, name)?.ok_or_else(|| {
                    PyAttributeError::new_err(format!("`{}` has no field `{name}`", self.kind()))
                })
            }

            fn __repr__(&self) -> String {
                format!("<{} {}>", $name, text(&self.0, self.kind()))
            }

            $($own)*
        }

        /// Gives one after the other, as they are decoded; a few thousand are ready ahead.
        #[pyclass(frozen, module = "backsight")]
        pub struct $iterator(pub Items<$value>);

        #[pymethods]
        impl $iterator {
            fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
                this
            }

            fn __next__(&self, py: Python<'_>) -> PyResult<Option<$class>> {
                Ok(self.0.next(py)?.map($class))
            }
        }
    };
}

item_class!(
    /// A packet of a source, as its trace unit sent it.
    "Packet", PacketItem, PacketIterator, Packet, {
        /// Its bytes; empty where they are not kept: bytes without synchronisation, if there are very many.
        #[getter]
        fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
            PyBytes::new(py, &self.0.bytes)
        }
    }
);

item_class!(
    /// Something that a processor did: a range of instructions, an exception, a gap, the time.
    "Event", EventItem, EventIterator, Event, {}
);
