//! The last door of text: what is harmful in it is made visible.

use std::io::{self, Write};

use backsight::listing::{Escape, Visible};

/// Writes text with what is harmful in it made visible.
pub struct VisibleWriter<W> {
    inner: W,
    visible: Visible,
}

impl<W: Write> VisibleWriter<W> {
    pub fn new(inner: W, escape: Escape) -> Self {
        Self { inner, visible: Visible::new(escape) }
    }

    pub fn into_inner(self) -> W {
        self.inner
    }

    pub fn get_ref(&self) -> &W {
        &self.inner
    }
}

impl<W: Write> Write for VisibleWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(&self.visible.piece(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
