//! What packets say of the state of the processor.

use backsight_arm::ptm::State;
use backsight_core::{Context, Security};

/// The state bits of a context.
pub(crate) fn state_of(context: &Context) -> State {
    let non_secure = context.privilege.security() == Security::NonSecure;
    State { alt_isa: false, non_secure, hyp: non_secure && context.level() == 2 }
}

/// The number that ETMv3 and PTM have for an exception of ETMv4's numbers.
pub(crate) const fn exception_number(cause: u32) -> u16 {
    match cause {
        0x00 => 8,
        0x01 | 0x06 | 0x07 => 1,
        0x02 => 10,
        0x03 => 3,
        0x04 => 4,
        0x0B => 11,
        0x0A | 0x0C => 12,
        0x0E => 14,
        0x0F => 15,
        _ => 13,
    }
}

/// Context ID and VMID, as far as they are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identifiers {
    pub context_id: Option<u32>,
    pub vmid: Option<u8>,
}

impl Identifiers {
    /// Those of a context, in a unit that traces so many bytes of a context ID, and VMIDs or not.
    pub fn of(context: &Context, context_id_bytes: u8, vmid: bool) -> Self {
        let mask = match context_id_bytes {
            0 => 0,
            4.. => u32::MAX,
            bytes => (1 << (8 * bytes)) - 1,
        };
        let context_id = (context.context_id.unwrap_or(0) as u32) & mask;
        Self {
            context_id: (context_id_bytes > 0).then_some(context_id),
            vmid: vmid.then(|| context.vmid.unwrap_or(0) as u8),
        }
    }
}
