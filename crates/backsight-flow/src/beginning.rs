//! The beginning of a trace: what comes before the first synchronisation is skipped.

use backsight_core::Located;

/// What was skipped so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beginning {
    is_begun: bool,
    is_synchronised: bool,
    skipped: Option<Located<()>>,
}

impl Beginning {
    /// Something of the trace is here. True if it is the first.
    #[inline]
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_begun, true)
    }

    /// Something could not be used. After the first synchronisation that is no matter of the beginning.
    pub fn skip(&mut self, at: Located<()>) {
        if self.is_synchronised {
            return;
        }
        let first = self.skipped.unwrap_or(at);
        let length = u32::try_from(at.end().saturating_sub(first.offset)).unwrap_or(u32::MAX);
        self.skipped = Some(Located { length, ..first });
    }

    /// The same, with nothing skipped so far.
    pub fn without_skipped(self) -> Self {
        Self { skipped: None, ..self }
    }

    /// Decoding can begin here, or the trace ends. What was skipped before, the first time.
    #[inline]
    pub fn synchronise(&mut self) -> Option<Located<()>> {
        self.is_synchronised = true;
        self.skipped.take()
    }
}
