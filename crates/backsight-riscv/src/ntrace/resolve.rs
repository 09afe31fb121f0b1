//! Which address a message reports.
//!
//! Messages that synchronise send a whole address (F-ADDR), others the exclusive or with the one that was sent before
//! (U-ADDR); both without the lowest bit.

use super::message::Message;

/// The address that one source sent last, halved; `None` before the first synchronisation, and where messages are
/// missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentAddress(Option<u64>);

impl SentAddress {
    /// The whole address that a message reports, if it is known. A repeated branch goes where it went before.
    pub fn of(&mut self, message: &Message) -> Option<u64> {
        match *message {
            Message::ProgramTraceSync { address, .. }
            | Message::DirectBranchSync { address, .. }
            | Message::IndirectBranchSync { address, .. }
            | Message::IndirectBranchHistorySync { address, .. } => self.0 = Some(address),
            Message::IndirectBranch { address, .. } | Message::IndirectBranchHistory { address, .. } => {
                self.0 = self.0.map(|latest| latest ^ address);
            }
            // Tracing ends, or messages were lost.
            Message::ProgramTraceCorrelation { .. } | Message::Error { .. } => {
                self.0 = None;
                return None;
            }
            _ => return None,
        }
        self.0.map(|address| address << 1)
    }
}
