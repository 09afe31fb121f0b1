//! Moments: places in the execution of a source, and the way to them without decoding all that lies before.
//!
//! A **moment** is a place between two instructions of a source. It is named by what is known of it ([`Moment`]):
//!
//! | written | meaning |
//! |---|---|
//! | `#1234567`, `start` | after so many instructions of the source; `start` is `#0` |
//! | `end`, `end-1000` | where the trace of the source ends, so many instructions before that |
//! | `t5000`, `t0x1388` | where the trace says for the first time that it is this time (a timestamp) or later |
//! | `3.2s`, `15ms`, `20us`, `700ns` | so long after the first timestamp of the source, where the capture says how fast they count |
//! | `@0x1f00` | the first thing that was reported at this byte of the buffer, or after it |
//!
//! Instructions are those in ranges, of all harts of a source together: what is missing in the trace has no number. A
//! [`Window`] is what lies between two moments. It begins with the first instruction or event at or after its beginning, in the middle of a
//! range if need be, and ends before the first at or after its end: windows that meet share nothing and leave nothing out.
//!
//! Trace is written in terms of what came before it, so a decoder that comes late has to begin at a synchronisation. An [`Index`] is a
//! list of [`Point`]s at which that is known to be right: a decoder that began there, and knew nothing else, knew the same as one that
//! had read the whole source ([`Decode::find_cuts`](crate::Decode::find_cuts)). A point says how to get there (bytes of the buffer and of the stream),
//! how many instructions came before, the time, and the context of each hart. No state of a decoder is kept, so an
//! index is small and does not depend on how decoders work.
//!
//! An index makes answers come soon; it does not change them. Without one, a window is looked for from the beginning of the source, but
//! for what is counted from the end: there an index of the last kilobytes is made, which begins at a synchronisation near the end.

mod back;
mod calls;
mod chosen;
mod entries;
mod file;
mod file_calls;
mod file_sums;
mod find;
mod identity;
mod index;
mod known_paths;
mod moment;
mod packets;
mod place;
mod reach;
mod search;
mod several;
mod sums;
mod thread_calls;
mod windowed;
mod write;

pub use calls::ThreadCalls;
pub use chosen::Chosen;
pub use file::IndexProblem;
pub use find::{Hit, Wanted};
pub use identity::Identity;
pub use index::{Index, Point, SourceIndex};
pub use known_paths::{KnownPath, KnownPaths};
pub use moment::{Moment, MomentError, Window};
pub use place::{Contexts, Place};
pub use reach::{Found, Moments};
pub use several::Taken;
pub use sums::{Counts, FunctionCounts, Part, Sought};
pub use windowed::InWindow;
