//! What an Ownership message says: privilege and context.
//!
//! ```text
//!  PROCESS  ┌─────────┬───┬─────┬────────┐   FORMAT 00 privilege only   10 scontext follows
//!           │ CONTEXT │ V │ PRV │ FORMAT │          01 reserved         11 hcontext follows
//!           └─────────┴───┴─────┴────────┘
//! ```

/// A context, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessContext {
    /// It did not change.
    Same,
    /// `scontext`: the operating system's.
    Supervisor(u64),
    /// `hcontext`: the hypervisor's.
    Hypervisor(u64),
}

/// PROCESS, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// As at the ingress port: 0 U, 1 S, 3 M, 5 VU, 6 VS.
    pub privilege: u8,
    /// The context.
    pub context: ProcessContext,
}

impl Process {
    /// From the field; `None` for the reserved format.
    pub const fn from_field(field: u64) -> Option<Self> {
        let (prv, virtualised) = (field >> 2 & 3, field >> 4 & 1 != 0);
        let privilege = if virtualised { prv as u8 + 5 } else { prv as u8 };
        let context = match field & 3 {
            0 => ProcessContext::Same,
            2 => ProcessContext::Supervisor(field >> 5),
            3 => ProcessContext::Hypervisor(field >> 5),
            _ => return None,
        };
        Some(Self { privilege, context })
    }

    /// The field. Of a context the low 59 bits have room.
    pub const fn field(&self) -> u64 {
        let (format, context) = match self.context {
            ProcessContext::Same => (0, 0),
            ProcessContext::Supervisor(context) => (2, context),
            ProcessContext::Hypervisor(context) => (3, context),
        };
        let virtualised = self.privilege >= 5;
        let prv = (if virtualised { self.privilege - 5 } else { self.privilege }) as u64 & 3;
        context << 5 | (virtualised as u64) << 4 | prv << 2 | format
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_those_of_the_specification_are_right() {
        let process = Process { privilege: 5, context: ProcessContext::Supervisor(0x1D) };
        assert_eq!((process.field(), Process::from_field(0x3B2)), (0x3B2, Some(process)));
        let machine = Process { privilege: 3, context: ProcessContext::Same };
        assert_eq!((machine.field(), Process::from_field(0xC)), (0xC, Some(machine)));
        for privilege in [0, 1, 3, 5, 6] {
            for context in
                [ProcessContext::Same, ProcessContext::Supervisor(7), ProcessContext::Hypervisor(1 << 40)]
            {
                let process = Process { privilege, context };
                assert_eq!(Process::from_field(process.field()), Some(process));
            }
        }
        assert_eq!(Process::from_field(1), None);
    }
}
