//! JSON that is written as it comes: however long a list is, one of its elements is in memory.

use std::io::{self, Write};

use serde_json::Value;

/// An object whose members are written one after the other.
pub(crate) struct Object<'w> {
    out: &'w mut dyn Write,
    is_empty: bool,
}

impl<'w> Object<'w> {
    /// Writes an object that `members` gives its members.
    pub fn write(
        out: &'w mut dyn Write,
        members: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        write!(out, "{{")?;
        let mut object = Self { out, is_empty: true };
        members(&mut object)?;
        write!(object.out, "}}")
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.is_empty, false) { "" } else { "," };
        write!(self.out, "{comma}{}:", Value::from(name))
    }

    /// A member whose value is in memory.
    pub fn value(&mut self, name: &str, value: impl Into<Value>) -> io::Result<()> {
        self.name(name)?;
        write!(self.out, "{}", value.into())
    }

    /// A member that is an object.
    pub fn object(
        &mut self,
        name: &str,
        members: impl FnOnce(&mut Object<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.name(name)?;
        Object::write(self.out, members)
    }

    /// A member that is a list.
    pub fn list(&mut self, name: &str, values: impl IntoIterator<Item = impl Into<Value>>) -> io::Result<()> {
        self.elements(name, values, |value, out| write!(out, "{}", value.into()))
    }

    /// A member that is a list of objects, each of which `members` gives its members.
    pub fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut members: impl FnMut(T, &mut Object<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.elements(name, items, |item, out| Object::write(out, |object| members(item, object)))
    }

    fn elements<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(T, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.name(name)?;
        write!(self.out, "[")?;
        for (number, item) in items.into_iter().enumerate() {
            if number > 0 {
                write!(self.out, ",")?;
            }
            write(item, self.out)?;
        }
        write!(self.out, "]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_piece_by_piece_is_what_is_written_at_once() {
        let mut text = Vec::new();
        Object::write(&mut text, |object| {
            object.value("a \"name\"", "a\ntext")?;
            object.list("none", [0_u32; 0])?;
            object.list("numbers", [1_u64, u64::MAX])?;
            object.object("empty", |_| Ok(()))?;
            object.objects("objects", 0..2_u32, |number, inner| {
                inner.value("number", number)?;
                inner.list("lists", [vec![number], Vec::new()])
            })
        })
        .unwrap();
        let expected = json!({
            "a \"name\"": "a\ntext", "none": [], "numbers": [1, u64::MAX], "empty": {},
            "objects": [{ "number": 0, "lists": [[0], []] }, { "number": 1, "lists": [[1], []] }],
        });
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), expected);
    }
}
