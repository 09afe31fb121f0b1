//! Which address a message reports.
//!
//! Messages that synchronise send a whole address (F-ADDR), others the exclusive or with the one that was sent before
//! (U-ADDR); both without the lowest bit.

use super::config::Config;
use super::in_circuit;
use super::packet::Message;

/// The address that one source sent last, halved; `None` before the first synchronisation, and where messages are
/// missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SentAddress(Option<u64>);

impl SentAddress {
    /// The whole address that a message reports, if it is known. A repeated branch goes where it went before.
    #[inline]
    pub fn of(&mut self, config: &Config, message: &Message) -> Option<u64> {
        match *message {
            Message::ProgramTraceSync { address, .. }
            | Message::DirectBranchSync { address, .. }
            | Message::IndirectBranchSync { address, .. }
            | Message::IndirectBranchHistorySync { address, .. } => self.0 = Some(config.extend(address)),
            Message::IndirectBranch { address, .. } | Message::IndirectBranchHistory { address, .. } => {
                self.0 = self.0.map(|latest| latest ^ config.extend(address));
            }
            Message::InCircuitTrace { event, is_sync, first, second }
                if in_circuit::has_address(event, second.is_some()) =>
            {
                let (before, first) = (self.0, config.extend(first));
                let at = if is_sync { Some(first) } else { before.map(|latest| latest ^ first) };
                // The target of a call is sent by how it differs from the call, and is what the next address differs from.
                self.0 = match (event, second) {
                    (in_circuit::CALL, Some(second)) => at.map(|at| at ^ config.extend(second)),
                    _ => at,
                };
                return at.map(|at| at << 1);
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
