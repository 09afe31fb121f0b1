//! E-Trace from packets to execution, and from execution to packets.

mod program;
mod reference;
