//! A column: its name, its type, what it says, and what it is filled with.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An unsigned number of 8 bits.
    U8,
    /// An unsigned number of 16 bits.
    U16,
    /// An unsigned number of 32 bits.
    U32,
    /// An unsigned number of 64 bits.
    U64,
    /// True or false.
    Bool,
    /// One of a limited number of texts: a dictionary of strings.
    Word,
    /// Any text.
    Text,
    /// Bytes.
    Bytes,
}

impl Kind {
    /// Its name in documentation and messages: that of its Arrow type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::Bool => "bool",
            Self::Word => "dictionary<string>",
            Self::Text => "string",
            Self::Bytes => "binary",
        }
    }

    /// Is it a number?
    pub const fn is_number(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// Is it text?
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Word | Self::Text)
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// A value may be missing: it is not known, or does not apply.
    pub nullable: bool,
    /// It counts something, and people add it up: its numbers are 64 bits wide, but none needs the highest bit.
    pub is_count: bool,
    /// What it says.
    pub meaning: &'static str,
    pub(crate) field: Field,
}

macro_rules! fields {
    ($($field:ident)*) => {
        /// What a column is filled with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Field { $($field,)* }
    };
}

fields! {
    Capture Buffer Source SourceName Protocol Format Core Thread Configuration Decoded CountsCycles Bytes Packets
    BadBytes UnsynchronisedBytes
    Hart Position Offset Length PacketBytes PacketKind Detail
    Start End Instructions Isa Ending Taken Conditional Indirect From To ToFunction
    Function FunctionOffset Module ModuleOffset File Line
    Space Level Privilege Vmid Context Time Cycles
    EventKind Address Value Size Number Channel Master ReturnAddress Access
    Depth Entry Exit OwnInstructions OwnCycles OwnTime CallInstructions CallCycles CallTime
    Reason Next
}
