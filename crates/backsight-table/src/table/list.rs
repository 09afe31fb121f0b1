//! The columns of each table, in their order.

use super::column::{Column, Field, Kind};

const fn column(name: &'static str, kind: Kind, field: Field, meaning: &'static str) -> Column {
    Column { name, kind, nullable: false, is_count: false, meaning, field }
}

const fn optional(name: &'static str, kind: Kind, field: Field, meaning: &'static str) -> Column {
    Column { name, kind, nullable: true, is_count: false, meaning, field }
}

/// A column of numbers that people add up. All of them are 64 bits wide: some engines add in the type of the column, so that a
/// sum of narrow numbers wraps around without a word.
const fn count(name: &'static str, field: Field, meaning: &'static str) -> Column {
    Column { is_count: true, ..column(name, Kind::U64, field, meaning) }
}

/// The same where it may be missing.
const fn optional_count(name: &'static str, field: Field, meaning: &'static str) -> Column {
    Column { nullable: true, ..count(name, field, meaning) }
}

/// A column of several tables that says something else in this one.
const fn saying(column: Column, meaning: &'static str) -> Column {
    Column { meaning, ..column }
}

const CAPTURE: Column = column(
    "capture",
    Kind::Word,
    Field::Capture,
    "the capture: the path it was opened by, or the name it was given",
);
const BUFFER: Column =
    column("buffer", Kind::Word, Field::Buffer, "the buffer of the capture that holds the trace");
const SOURCE: Column =
    column("source", Kind::U8, Field::Source, "the trace ID of the source; 0 where there is none");
const HART: Column =
    column("hart", Kind::U16, Field::Hart, "the number of the hart, where several share a source; else 0");
const CORE: Column =
    optional("core", Kind::Word, Field::Core, "the processor that the source traces, where the capture says");
const THREAD: Column = optional(
    "thread",
    Kind::U64,
    Field::Thread,
    "the thread that all trace of the source belongs to, in captures of single threads",
);
const POSITION: Column = column(
    "position",
    Kind::U64,
    Field::Position,
    "where the first byte of the packet that reported it is in the buffer: `index` of the listings",
);
const OFFSET: Column =
    column("offset", Kind::U64, Field::Offset, "the same as an offset in the stream of the source");
const TIME: Column = optional(
    "time",
    Kind::U64,
    Field::Time,
    "the last timestamp before it, in ticks of the trace's clock; of a message that came with its time, that",
);
const CYCLES: Column =
    optional("cycles", Kind::U64, Field::Cycles, "cycles counted in the trace of the source up to here");
const FUNCTION: Column =
    optional("function", Kind::Word, Field::Function, "the function of the first address, demangled");
const FUNCTION_OFFSET: Column = optional(
    "function_offset",
    Kind::U64,
    Field::FunctionOffset,
    "how far into the function that is, in bytes",
);
const MODULE: Column =
    optional("module", Kind::Word, Field::Module, "the file that holds the code: its name without folders");
const MODULE_OFFSET: Column = optional(
    "module_offset",
    Kind::U64,
    Field::ModuleOffset,
    "how far into the module the first address is, in bytes",
);
const FILE: Column = optional(
    "file",
    Kind::Word,
    Field::File,
    "the source file of the first instruction, by debug information",
);
const LINE: Column = optional("line", Kind::U32, Field::Line, "the line of the source file");
const SPACE: Column = optional(
    "space",
    Kind::Word,
    Field::Space,
    "the address space that code is fetched from, by exception level and security state",
);
const LEVEL: Column = optional(
    "level",
    Kind::U8,
    Field::Level,
    "the exception level (Arm) or the number of the privilege mode (RISC-V)",
);
const PRIVILEGE: Column =
    optional("privilege", Kind::Word, Field::Privilege, "the same in words, with the security state");
const VMID: Column =
    optional("vmid", Kind::U32, Field::Vmid, "the virtual machine (VMID, hcontext), once one was traced");
const CONTEXT: Column = optional(
    "context",
    Kind::U64,
    Field::Context,
    "the context (CONTEXTIDR, scontext), once one was traced: most often the process or thread",
);
const ISA: Column = column("isa", Kind::Word, Field::Isa, "the instruction set");
const INSTRUCTIONS: Column = count("instructions", Field::Instructions, "how many instructions");

pub(super) const SOURCES: &[Column] = &[
    CAPTURE,
    BUFFER,
    SOURCE,
    column("name", Kind::Word, Field::SourceName, "its name"),
    optional(
        "protocol",
        Kind::Word,
        Field::Protocol,
        "its protocol, by the name that `--protocol` has for it",
    ),
    column("format", Kind::Word, Field::Format, "the word of the capture for its protocol"),
    CORE,
    THREAD,
    column("configuration", Kind::Text, Field::Configuration, "how it was built and programmed, in words"),
    column("decoded", Kind::Bool, Field::Decoded, "its trace can be decoded"),
    column("counts_cycles", Kind::Bool, Field::CountsCycles, "it counts cycles"),
    count("bytes", Field::Bytes, "bytes of its trace"),
    optional_count(
        "packets",
        Field::Packets,
        "its packets, bad ones included; they are counted if this is asked for",
    ),
    optional_count("bad_bytes", Field::BadBytes, "bytes of packets that are reserved, malformed or cut off"),
    optional_count(
        "unsynchronised_bytes",
        Field::UnsynchronisedBytes,
        "bytes that were skipped in search of a packet",
    ),
];

pub(super) const PACKETS: &[Column] = &[
    CAPTURE,
    BUFFER,
    SOURCE,
    CORE,
    HART,
    saying(POSITION, "where its first byte is in the buffer: `index` of the listings"),
    OFFSET,
    count("length", Field::Length, "bytes of the packet"),
    column("packet", Kind::Word, Field::PacketKind, "what kind of packet it is: the name that listings use"),
    column("detail", Kind::Text, Field::Detail, "its fields, as `packets` lists them"),
    column(
        "bytes",
        Kind::Bytes,
        Field::PacketBytes,
        "its bytes; empty where they are not kept: bytes without synchronisation, if there are very many",
    ),
];

pub(super) const RANGES: &[Column] = &[
    CAPTURE,
    BUFFER,
    SOURCE,
    CORE,
    HART,
    THREAD,
    POSITION,
    OFFSET,
    column("start", Kind::U64, Field::Start, "the address of the first instruction"),
    column("end", Kind::U64, Field::End, "the address after the last instruction"),
    INSTRUCTIONS,
    ISA,
    optional(
        "ending",
        Kind::Word,
        Field::Ending,
        "how it ended: `branch`, `call`, `return`, `not taken`, ...; null where the last instruction is nothing special",
    ),
    column("taken", Kind::Bool, Field::Taken, "the last instruction was executed; of a branch: it was taken"),
    column("conditional", Kind::Bool, Field::Conditional, "the last instruction is conditional"),
    FUNCTION,
    FUNCTION_OFFSET,
    MODULE,
    MODULE_OFFSET,
    FILE,
    LINE,
    SPACE,
    LEVEL,
    PRIVILEGE,
    VMID,
    CONTEXT,
    TIME,
    CYCLES,
];

pub(super) const BRANCHES: &[Column] = &[
    CAPTURE,
    BUFFER,
    SOURCE,
    CORE,
    HART,
    THREAD,
    POSITION,
    OFFSET,
    column("from_address", Kind::U64, Field::From, "the address of the branch"),
    optional(
        "to_address",
        Kind::U64,
        Field::To,
        "where execution went on; null where that is not known: after a gap, an exception, the end",
    ),
    column("taken", Kind::Bool, Field::Taken, "it was taken"),
    column(
        "kind",
        Kind::Word,
        Field::Ending,
        "`branch`, `call`, `return`, `indirect branch`, `indirect call`, `exception return`, `not taken`",
    ),
    column("indirect", Kind::Bool, Field::Indirect, "its target is not in its opcode"),
    column("conditional", Kind::Bool, Field::Conditional, "it is conditional"),
    ISA,
    saying(FUNCTION, "the function that the branch is in, demangled"),
    optional("to_function", Kind::Word, Field::ToFunction, "the function that it went to"),
    MODULE,
    saying(FILE, "the source file of the branch, by debug information"),
    LINE,
    LEVEL,
    VMID,
    CONTEXT,
    TIME,
    CYCLES,
];

pub(super) const CALLS: &[Column] = &[
    CAPTURE,
    BUFFER,
    SOURCE,
    CORE,
    HART,
    THREAD,
    column(
        "address",
        Kind::U64,
        Field::Address,
        "the first address of the function that was executed in this stay",
    ),
    saying(FUNCTION, "the function, demangled"),
    saying(FUNCTION_OFFSET, "how far into the function the address is, in bytes"),
    MODULE,
    saying(MODULE_OFFSET, "how far into the module the address is, in bytes"),
    count("depth", Field::Depth, "calls under way around it, as far as they are known; 0 for the outermost"),
    column("entry", Kind::Bool, Field::Entry, "the call begins with this stay"),
    column(
        "exit",
        Kind::Bool,
        Field::Exit,
        "the call ends with this stay, and its beginning is in the trace",
    ),
    TIME,
    count("own_instructions", Field::OwnInstructions, "instructions of this stay, without what it called"),
    optional_count("own_cycles", Field::OwnCycles, "cycles of this stay"),
    optional_count(
        "own_time",
        Field::OwnTime,
        "time of this stay, between the timestamps before its beginning and before its end",
    ),
    optional_count(
        "call_instructions",
        Field::CallInstructions,
        "of a call that ends: instructions from its beginning to its end, with all that it called",
    ),
    optional_count("call_cycles", Field::CallCycles, "of a call that ends: its cycles"),
    optional_count("call_time", Field::CallTime, "of a call that ends: its time"),
];

pub(super) const EVENTS: &[Column] = &[
    CAPTURE,
    BUFFER,
    SOURCE,
    CORE,
    HART,
    THREAD,
    POSITION,
    OFFSET,
    column(
        "event",
        Kind::Word,
        Field::EventKind,
        "what kind of event it is: `event` of `flow --format json`",
    ),
    column("detail", Kind::Text, Field::Detail, "the event as `flow` lists it"),
    optional(
        "address",
        Kind::U64,
        Field::Address,
        "the address that it is about: of a data access, of an instruction that was sampled",
    ),
    optional(
        "return_address",
        Kind::U64,
        Field::ReturnAddress,
        "of an exception: where the handler would return to",
    ),
    optional("number", Kind::U64, Field::Number, "of an exception: its number; of a context: its identifier"),
    optional(
        "access",
        Kind::Word,
        Field::Access,
        "of a data access: `load`, `store`, or an atomic operation",
    ),
    optional_count("size", Field::Size, "bytes of a data access or of a message"),
    optional("value", Kind::U64, Field::Value, "what was read, written or sent; of a timestamp, the time"),
    optional("master", Kind::U16, Field::Master, "of a message: the bus master that sent it"),
    optional(
        "channel",
        Kind::U16,
        Field::Channel,
        "of a message: the channel, stimulus port or exception level",
    ),
    saying(
        FUNCTION,
        "the function that it happened in, where an address says: of an exception, that of its return address",
    ),
    LEVEL,
    VMID,
    CONTEXT,
    TIME,
    CYCLES,
];

pub(super) const DAMAGE: &[Column] = &[
    CAPTURE,
    optional(
        "buffer",
        Kind::Word,
        Field::Buffer,
        "the buffer; null where the capture as a whole could not be read",
    ),
    optional(
        "source",
        Kind::U8,
        Field::Source,
        "the trace ID; null where it is about the buffer or the capture",
    ),
    CORE,
    HART,
    optional("position", Kind::U64, Field::Position, "where it was reported in the buffer"),
    optional("offset", Kind::U64, Field::Offset, "the same as an offset in the stream of the source"),
    column(
        "event",
        Kind::Word,
        Field::EventKind,
        "`gap`, `no_memory`, `path_unknown`, ...: the event of `flow`; or `frames`, `bytes`, `undecoded`, `unreadable`",
    ),
    column("reason", Kind::Text, Field::Reason, "what is missing, and why, in words"),
    optional_count("bytes", Field::Bytes, "bytes that were lost, where they can be counted"),
    optional("address", Kind::U64, Field::Address, "the address that it is about"),
    optional("next", Kind::U64, Field::Next, "where execution goes on after a path that is not known"),
    optional_count(
        "instructions",
        Field::Instructions,
        "instructions on that path, where the trace counts them",
    ),
    saying(FUNCTION, "the function of the address, demangled"),
    TIME,
    CYCLES,
];
