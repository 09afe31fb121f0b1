//! E-Trace from packets to execution, and from execution to packets.

mod buffer;
mod cva6;
mod cva6_tracer;
mod damage;
mod data;
mod fast;
mod faults;
mod independent;
mod independent_step;
mod irdepth;
mod loops;
mod program;
mod pulp;
mod random;
mod reference;
mod resync;
mod retire;
mod roundtrip;
