//! Which address a packet reports.
//!
//! Packets of format 3 name an address as it is, others most often the difference to the one that was reported before.

use super::{CountEnd, Options, Packet, Params, Reported};

/// The address that was reported last, of one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReportedAddress {
    latest: u64,
    known: bool,
    shift: u8,
    full: bool,
    mask: u64,
}

impl ReportedAddress {
    /// No address was reported yet.
    pub fn new(params: &Params, options: &Options) -> Self {
        Self {
            latest: 0,
            known: false,
            shift: params.iaddress_lsb,
            full: options.full_address,
            mask: params.wrap(u64::MAX),
        }
    }

    /// A support packet announced other parameters or options.
    pub fn configure(&mut self, params: &Params, options: &Options) {
        *self = Self { latest: self.latest, known: self.known, ..Self::new(params, options) };
    }

    /// Packets may be missing.
    pub const fn forget(&mut self) {
        self.known = false;
    }

    /// The address that a packet reports, if it is known.
    pub fn of(&mut self, packet: &Packet) -> Option<u64> {
        match packet {
            Packet::Branches { address: Some(reported), .. }
            | Packet::BranchCount {
                end: CountEnd::Address(reported) | CountEnd::MispredictedAt(reported),
                ..
            } => self.reported(reported),
            Packet::Start(start) => self.absolute(Some(start.address)),
            Packet::Trap(trap) => self.absolute(trap.address),
            Packet::JumpTarget { .. } => {
                self.known = false;
                None
            }
            Packet::Branches { address: None, .. }
            | Packet::BranchCount { end: CountEnd::Mispredicted, .. }
            | Packet::Context(_)
            | Packet::Support(_) => None,
        }
    }

    /// The same for formats 1 and 2.
    #[inline(always)]
    pub fn reported(&mut self, reported: &Reported) -> Option<u64> {
        let from = if self.full { 0 } else { self.latest };
        self.known |= self.full;
        self.latest = from.wrapping_add(reported.address << self.shift) & self.mask;
        if self.known { Some(self.latest) } else { None }
    }

    fn absolute(&mut self, field: Option<u64>) -> Option<u64> {
        self.known = field.is_some();
        self.latest = field.unwrap_or(0) << self.shift & self.mask;
        field.map(|_| self.latest)
    }
}
