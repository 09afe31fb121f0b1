//! E-Trace from packets to execution, and from execution to packets.

mod program;
mod random;
mod reference;
mod roundtrip;
