//! E-Trace from packets to execution, and from execution to packets.

mod independent;
mod independent_step;
mod program;
mod random;
mod reference;
mod roundtrip;
