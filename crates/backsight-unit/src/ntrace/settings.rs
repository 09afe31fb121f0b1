//! How an N-Trace unit is set up.

use backsight_riscv::ntrace::{Mode, event, sync};

use crate::riscv::Resync;

/// Which messages carry a time. Those that synchronise carry the time itself, others what passed since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Timestamps {
    /// None.
    #[default]
    Off,
    /// Those that synchronise.
    Synchronising,
    /// All.
    All,
}

/// How a unit is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How branches are reported.
    pub mode: Mode,
    /// Outcomes that HIST holds, 1 to 62; the specification has up to 31.
    pub history_bits: u8,
    /// The same full history several times in a row is sent once, with HREPEAT.
    pub repeat_history: bool,
    /// The same branch message several times in a row is sent once, and a RepeatBranch message.
    pub repeat_branch: bool,
    /// I-CNT holds no more than this, and no more than its field.
    pub count_limit: u32,
    /// Returns to where one of the last so many calls came from are not reported; 0: all are. No more than
    /// [`MOST_RETURNS`](backsight_riscv::ntrace::MOST_RETURNS).
    pub return_stack: u8,
    /// Periodic synchronisation.
    pub resync: Resync,
    /// Privilege and context are reported, in Ownership messages.
    pub ownership: bool,
    /// Which messages carry a time.
    pub timestamps: Timestamps,
    /// SRC of the messages.
    pub source: u16,
    /// SYNC of the first message: [`sync`](backsight_riscv::ntrace::sync).
    pub start: u8,
    /// EVCODE of the last message: [`event`](backsight_riscv::ntrace::event).
    pub end: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::History,
            history_bits: 31,
            repeat_history: true,
            repeat_branch: false,
            count_limit: (1 << 22) - 1,
            return_stack: 16,
            resync: Resync::default(),
            ownership: false,
            timestamps: Timestamps::Off,
            source: 0,
            start: sync::TRACE_ENABLE,
            end: event::TRACE_DISABLE,
        }
    }
}
