//! One memory or CSR access of a hart, as the data trace interface reports it.

/// What an access does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dtype {
    /// A load.
    #[default]
    Load = 0,
    /// A store.
    Store = 1,
    /// CSR read and write.
    CsrReadWrite = 4,
    /// CSR read and set.
    CsrReadSet = 5,
    /// CSR read and clear.
    CsrReadClear = 6,
    /// A compare-and-swap that stored nothing (draft).
    CasFailure = 7,
    /// Atomic swap.
    Swap = 8,
    /// Atomic add.
    Add = 9,
    /// Atomic and.
    And = 10,
    /// Atomic or.
    Or = 11,
    /// Atomic exclusive or.
    Xor = 12,
    /// Atomic maximum.
    Max = 13,
    /// Atomic minimum.
    Min = 14,
    /// A conditional store that stored nothing.
    ConditionalStoreFailure = 15,
}

impl Dtype {
    /// The type with that code; `None` for the reserved codes.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Load,
            1 => Self::Store,
            4 => Self::CsrReadWrite,
            5 => Self::CsrReadSet,
            6 => Self::CsrReadClear,
            7 => Self::CasFailure,
            8 => Self::Swap,
            9 => Self::Add,
            10 => Self::And,
            11 => Self::Or,
            12 => Self::Xor,
            13 => Self::Max,
            14 => Self::Min,
            15 => Self::ConditionalStoreFailure,
            _ => return None,
        })
    }

    /// The name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::CsrReadWrite => "csr_rw",
            Self::CsrReadSet => "csr_rs",
            Self::CsrReadClear => "csr_rc",
            Self::CasFailure => "cas_failure",
            Self::Swap => "swap",
            Self::Add => "add",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Max => "max",
            Self::Min => "min",
            Self::ConditionalStoreFailure => "sc_failure",
        }
    }

    /// A load or a store.
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Load | Self::Store)
    }

    /// An access to a CSR.
    pub const fn is_csr(self) -> bool {
        matches!(self, Self::CsrReadWrite | Self::CsrReadSet | Self::CsrReadClear)
    }
}

/// One access. A decoder leaves out what the packets do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataAccess {
    /// What it does.
    pub dtype: Dtype,
    /// One of several accesses of the same instruction (draft).
    pub multiple: bool,
    /// It concerns 2^size bytes.
    pub size: u8,
    /// Where; of a CSR its number.
    pub address: Option<u64>,
    /// What an atomic or CSR operation combines with what it found.
    pub operand: Option<u128>,
    /// What was loaded or stored; of atomic and CSR operations what was found.
    pub data: Option<u128>,
    /// The data comes later, in the response of that number.
    pub lrid: Option<u16>,
}

/// What the data trace interface reports at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataRecord {
    /// An access; with `lrid` only its request.
    Access(DataAccess),
    /// The data of an access whose request came before.
    Response {
        /// Which request.
        lrid: u16,
        /// The request was an atomic operation.
        atomic: bool,
        /// It concerns 2^size bytes.
        size: u8,
        /// The data; `None`: the access failed.
        data: Option<u128>,
    },
}
