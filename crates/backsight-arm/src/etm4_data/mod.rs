//! The data trace of an ETMv4: the second stream of the trace unit, with an ID one above that of the first.
//!
//! What is established about it is where it begins (the same A-sync as in the instruction stream), what the first byte of
//! every packet means, and which packets are headers alone. How long packets of addresses, values, time, events and trace
//! info are is not. So the reader goes from header to header as long as it knows where the next one is; from the first
//! packet whose length it does not know it carries the bytes through as they are, up to the next A-sync.

mod decode;
mod header;

pub use decode::Decoder;
pub use header::Header;

use backsight_core::{Describe, Field, Text, Value};

/// A packet, or bytes that are carried through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// From here on headers can be read.
    Async,
    /// A packet that is a header alone.
    Whole(Header),
    /// A packet of this kind begins here; where it ends is not established, and bytes up to the next A-sync are carried
    /// through.
    Unread(Header),
    /// A header that no packet has; bytes up to the next A-sync are passed over.
    Bad,
    /// The end of the data cut a header off.
    Incomplete,
    /// Bytes before the first A-sync.
    Unsynchronised,
}

impl Describe for Packet {
    fn name(&self) -> &'static str {
        match self {
            Self::Async => "D_ASYNC",
            Self::Whole(header) | Self::Unread(header) => header.name(),
            Self::Bad | Self::Incomplete => "D_BAD_SEQUENCE",
            Self::Unsynchronised => "D_NOTSYNC",
        }
    }

    fn fields(&self, each: &mut dyn FnMut(Field)) {
        if let Self::Whole(Header::NumberedSyncMarker(number)) = self {
            each(Field::new("number", Value::Decimal((*number).into())));
        }
        let unread = matches!(self, Self::Unread(_));
        each(Field::new("unread", Value::Flag(unread)).text(Text::Words("not read up to the next A-sync")));
        match self {
            Self::Bad => each(Field::new("why", Value::Word("reserved header")).text(Text::Plain)),
            Self::Incomplete => {
                each(Field::new("why", Value::Word("cut off by the end of the data")).text(Text::Plain));
            }
            _ => {}
        }
    }
}
