//! The engine that debuggers walk through a capture with.
//!
//! A [`Replay`] stands at an instruction: the one that is executed next. It steps and runs from there, in both directions, and says where
//! it is, which calls are under way, what was reported on the way, and which code and memory there was. Instructions around the position are
//! kept decoded; what is farther away is looked for on all cores, from points of the [index](backsight::moments).
//!
//! The sources of a capture are walked through together. With [`Scheduler::Time`], each of the others is where the trace says that it was at the
//! time of the one that moves; with [`Scheduler::Alone`], only that one moves.
//!
//! ```
//! use backsight_debug::replay::{Direction, Replay, Stopped};
//! let capture = backsight::Capture::open("../../testdata/captures/calls-riscv64")?;
//! let index = capture.moments().index(1)?;
//! let moments = capture.moments().with_index(index.into());
//! let mut replay = Replay::new(&capture, &moments, &capture.execution())?;
//! let thread = replay.current();
//! assert_eq!(replay.step(thread, Direction::Forwards)?, Stopped::End);
//! assert_eq!(replay.step(thread, Direction::Backwards)?, Stopped::Step);
//! # Ok::<(), backsight::Error>(())
//! ```

mod calls;
mod chunk;
mod logged;
mod memory;
mod recorded;
mod search;
mod state;
mod traced;
mod track;
mod walk;
mod watch;

pub use calls::Call;
pub use logged::Logged;
pub use recorded::{Recorded, initial_memory};
pub use search::Direction;
pub use state::{Access, At, Register, State, Touch, Unknown};
pub use walk::{Breakpoint, Replay, Scheduler, Stopped, Stops, Thread, ThreadId, What};
pub use watch::Watchpoint;
