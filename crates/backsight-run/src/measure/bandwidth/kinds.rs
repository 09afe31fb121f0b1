//! What the bytes of a trace are for.

use backsight_arm::etm4::Packet;
use backsight_core::Located;

/// Packets with a common purpose.
#[expect(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Atoms,
    Addresses,
    Exceptions,
    Contexts,
    CycleCounts,
    Timestamps,
    Events,
    Synchronisation,
    Other,
}

impl Family {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Atoms,
        Self::Addresses,
        Self::Exceptions,
        Self::Contexts,
        Self::CycleCounts,
        Self::Timestamps,
        Self::Events,
        Self::Synchronisation,
        Self::Other,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Atoms => "atoms",
            Self::Addresses => "addresses",
            Self::Exceptions => "exceptions",
            Self::Contexts => "contexts",
            Self::CycleCounts => "cycle counts",
            Self::Timestamps => "timestamps",
            Self::Events => "events",
            Self::Synchronisation => "sync",
            Self::Other => "other",
        }
    }

    /// The family of a packet.
    pub const fn of(packet: &Packet) -> Self {
        match packet {
            Packet::Atoms(_) => Self::Atoms,
            Packet::Address(_) | Packet::SourceAddress(_) | Packet::Q(_) => Self::Addresses,
            Packet::Exception(_) | Packet::ExceptionReturn | Packet::PeReset => Self::Exceptions,
            Packet::Context(_) | Packet::AddressContext(..) => Self::Contexts,
            Packet::CycleCount(_) => Self::CycleCounts,
            Packet::Timestamp(_) | Packet::TimestampMarker => Self::Timestamps,
            Packet::Event(_) => Self::Events,
            Packet::Async | Packet::TraceInfo(_) | Packet::TraceOn => Self::Synchronisation,
            _ => Self::Other,
        }
    }
}

/// Packets of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Their name in listings.
    pub name: &'static str,
    /// What they are for.
    pub family: Family,
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Packets by name, in the order in which each came first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(Vec<Share>);

impl Kinds {
    /// One packet more.
    pub fn count(&mut self, packet: &Located<Packet>) {
        let name = packet.value.name();
        let index = self.0.iter().position(|share| share.name == name).unwrap_or_else(|| {
            self.0.push(Share { name, family: Family::of(&packet.value), packets: 0, bytes: 0 });
            self.0.len() - 1
        });
        self.0[index].packets += 1;
        self.0[index].bytes += u64::from(packet.length);
    }

    /// All of them.
    pub fn shares(&self) -> &[Share] {
        &self.0
    }

    /// Packets in all.
    pub fn packets(&self) -> u64 {
        self.0.iter().map(|share| share.packets).sum()
    }

    /// Bytes of a family.
    pub fn bytes_of(&self, family: Family) -> u64 {
        self.0.iter().filter(|share| share.family == family).map(|share| share.bytes).sum()
    }
}
