//! Codes that messages carry.

/// Why a message synchronises (SYNC).
pub mod sync {
    /// A trigger from outside marks this place.
    pub const EXTERNAL_TRIGGER: u8 = 0;
    /// The hart left reset.
    pub const EXIT_FROM_RESET: u8 = 1;
    /// It was time.
    pub const PERIODIC: u8 = 2;
    /// The hart left debug mode.
    pub const EXIT_FROM_DEBUG: u8 = 3;
    /// I-CNT was full.
    pub const COUNTER: u8 = 4;
    /// Tracing was switched on.
    pub const TRACE_ENABLE: u8 = 5;
    /// A watchpoint marks this place.
    pub const TRACE_EVENT: u8 = 6;
    /// Messages were lost before.
    pub const OVERRUN: u8 = 7;
    /// The hart left a state of low power.
    pub const EXIT_FROM_POWER_DOWN: u8 = 9;

    /// A sample of the program counter, and no flow (SiFive).
    pub const PC_SAMPLE: u8 = 15;

    /// The code in words.
    pub const fn name(code: u8) -> &'static str {
        match code {
            EXTERNAL_TRIGGER => "external trigger",
            EXIT_FROM_RESET => "exit from reset",
            PERIODIC => "periodic",
            EXIT_FROM_DEBUG => "exit from debug mode",
            COUNTER => "counter full",
            TRACE_ENABLE => "trace enabled",
            TRACE_EVENT => "watchpoint",
            OVERRUN => "restart after loss",
            EXIT_FROM_POWER_DOWN => "exit from power-down",
            11 => "message contention",
            PC_SAMPLE => "PC sample",
            14 => "vendor's",
            _ => "reserved",
        }
    }
}

/// Why tracing ends (EVCODE).
pub mod event {
    /// The hart entered debug mode.
    pub const DEBUG_ENTRY: u8 = 0;
    /// The hart entered a state of low power.
    pub const LOW_POWER: u8 = 1;
    /// Tracing was switched off.
    pub const TRACE_DISABLE: u8 = 4;

    /// The code in words.
    pub const fn name(code: u8) -> &'static str {
        match code {
            DEBUG_ENTRY => "debug mode entered",
            LOW_POWER => "low power entered",
            TRACE_DISABLE => "trace disabled",
            8 => "reset entered",
            9.. => "vendor's",
            _ => "reserved",
        }
    }
}

/// What happened (CKSRC of an in-circuit trace message).
pub mod in_circuit {
    /// Tracing or the hart changed its state: CKDATA1 says how, or CKDATA0 where it is the only one.
    pub const CONTROL: u8 = 0;
    /// A trigger from outside.
    pub const EXTERNAL_TRIGGER: u8 = 8;
    /// A call or a return.
    pub const CALL: u8 = 9;
    /// An exception.
    pub const EXCEPTION: u8 = 10;
    /// An interrupt.
    pub const INTERRUPT: u8 = 11;
    /// Eight performance counters of 16 bits.
    pub const COUNTERS: u8 = 12;
    /// The context changed.
    pub const CONTEXT: u8 = 13;
    /// A watchpoint.
    pub const WATCHPOINT: u8 = 14;
    /// A sample of the program counter.
    pub const PC_SAMPLE: u8 = 15;

    /// The code in words.
    pub const fn name(code: u8) -> &'static str {
        match code {
            CONTROL => "control",
            EXTERNAL_TRIGGER => "external trigger",
            CALL => "call or return",
            EXCEPTION => "exception",
            INTERRUPT => "interrupt",
            COUNTERS => "counters",
            CONTEXT => "context",
            WATCHPOINT => "watchpoint",
            PC_SAMPLE => "PC sample",
            _ => "reserved",
        }
    }

    /// A code of a control event in words.
    pub const fn control(code: u64) -> &'static str {
        match code {
            0 => "time",
            2 => "trace on",
            3 => "trace off",
            4 => "debug mode left",
            5 => "debug mode entered",
            6 => "reset left",
            8 => "reset entered",
            _ => "reserved",
        }
    }

    /// Does CKDATA0 hold an address? Counters have none, nor has a control event with nothing else.
    pub const fn has_address(code: u8, has_second: bool) -> bool {
        !matches!((code, has_second), (COUNTERS, _) | (CONTROL, false))
    }
}

/// What was lost (ECODE of an error message): bits.
pub mod lost {
    /// Messages about the program.
    pub const PROGRAM: u64 = 1 << 2;
    /// Ownership messages.
    pub const OWNERSHIP: u64 = 1 << 3;
}

/// How branches are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Outcomes collect in a history (HTM).
    #[default]
    History,
    /// Every taken branch is a message (BTM).
    Branch,
}

/// Most calls that a decoder remembers.
pub const MOST_RETURNS: u8 = 64;
