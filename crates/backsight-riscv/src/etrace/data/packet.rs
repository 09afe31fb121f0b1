//! What te_data packets say, as sent.

use crate::ingress::Dtype;

/// How data is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataCoding {
    /// As it is.
    #[default]
    Full,
    /// Exclusive or with the data before.
    Xor,
    /// Difference to the data before.
    Differential,
}

/// How address and data are sent: the field `diff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coding {
    /// The address is a difference.
    pub differential_address: bool,
    /// The data.
    pub data: DataCoding,
}

/// An access, or the request of a split one. Fields that the packet does not have are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessPacket {
    /// What it does.
    pub dtype: Dtype,
    /// One of several accesses of the same instruction (draft).
    pub multiple: bool,
    /// The address is a multiple of the size, and sent without the bits that are 0.
    pub aligned: bool,
    /// It concerns 2^size bytes.
    pub size: u8,
    /// How address and data are sent.
    pub coding: Coding,
    /// Number of the response that will bring the data.
    pub lrid: Option<u16>,
    /// The operand, always in full.
    pub operand: Option<u128>,
    /// The data as coded.
    pub data: Option<u128>,
    /// The address field as coded; of a CSR its number.
    pub address: Option<u64>,
}

/// The data of a split access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponsePacket {
    /// Of an atomic operation; else of a load. The draft extension does not distinguish them: false.
    pub atomic: bool,
    /// It concerns 2^size bytes.
    pub size: u8,
    /// Which request.
    pub lrid: u16,
    /// How the data is sent, and the data as coded; `None`: the access failed.
    pub data: Option<(DataCoding, u128)>,
}

/// One te_data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// An access, or its request.
    Access(AccessPacket),
    /// The data of a split access.
    Response(ResponsePacket),
}

const _: () = assert!(size_of::<Packet>() <= 112);

impl Packet {
    /// The name in listings.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Access(access) => access.dtype.name(),
            Self::Response(ResponsePacket { atomic: true, .. }) => "atomic_data",
            Self::Response(_) => "load_data",
        }
    }
}
