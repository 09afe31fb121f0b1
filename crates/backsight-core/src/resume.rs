//! Decoders that are left in the middle of a stream and taken up again.

/// A decoder that can be left between two bytes, and taken up again there by another one of the same stream. Decoders of one
/// stream with equal [`Resume::state`] at the same byte give the same from there on, wherever they began: so pieces of a
/// stream can be decoded apart and put together.
pub trait Resume: Clone + PartialEq {
    /// The same decoder, having counted nothing.
    #[must_use]
    fn state(&self) -> Self;

    /// A decoder of the same configuration that begins with the byte at `offset`, in the middle of a stream.
    #[must_use]
    fn starting_at(&self, offset: u64) -> Self;

    /// The same, where this one has read part of what comes before: what may still hold of what it knows, the new one knows,
    /// too, for not all of that is repeated.
    #[must_use]
    fn starting_later(&self, offset: u64) -> Self {
        self.starting_at(offset)
    }

    /// Where the last synchronisation in `bytes` begins, if that is `from` or later: it may be a good offset to begin at. The
    /// bytes begin at such an offset, or at the beginning of the stream.
    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize>;

    /// Does its stream have synchronisation at all?
    fn synchronises(&self) -> bool {
        true
    }
}
