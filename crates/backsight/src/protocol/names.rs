//! How people and captures call a protocol.

/// The names of a protocol, and what captures say of its sources in the same way for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The name on a command line.
    pub name: &'static str,
    /// Words of captures that mean it, in lower case and without a version: `etm4` for `ETM4.2`.
    pub formats: &'static [&'static str],
    /// Which stream of a trace unit it is: a unit may have several, of different protocols.
    pub stream: u8,
    /// The word that captures are written with.
    pub format: &'static str,
    /// How its packets may be framed where no CoreSight formatter carries them; the first is the usual one. Most
    /// protocols need none.
    pub framings: &'static [&'static str],
    /// The register that holds the trace ID.
    pub id_register: Option<IdRegister>,
    /// Registers without which a stream cannot be read for certain.
    pub needed_registers: &'static [&'static str],
}

/// The register that holds a trace ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRegister {
    /// Its names: the first is the usual one.
    pub names: &'static [&'static str],
    /// The lowest bit of the ID.
    pub lowest_bit: u32,
}

impl Names {
    /// A protocol without registers and framings: the others differ from it.
    pub(super) const PLAIN: Self = Self {
        name: "",
        formats: &[],
        stream: 0,
        format: "",
        framings: &[],
        id_register: None,
        needed_registers: &[],
    };

    /// Is it one of these?
    pub(super) fn is_in(&self, names: &[Self]) -> bool {
        names.iter().any(|other| other.name == self.name)
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name)
    }
}
