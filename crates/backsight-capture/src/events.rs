//! The system event log.

/// The system event log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLog {}
