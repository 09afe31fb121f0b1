//! Protocols that captures name and that nobody decodes here yet: their sources are named and passed over.

use super::Names;

/// Their names: there are none today.
pub(super) const NAMES: &[Names] = &[];
