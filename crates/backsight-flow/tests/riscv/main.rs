//! RISC-V trace from packets to execution, and from execution to packets: E-Trace, unless a file says N-Trace.

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
mod ntrace;
mod ntrace_encoder;
mod program;
mod pulp;
mod random;
mod reference;
mod resync;
mod retire;
mod roundtrip;
mod shared_code;
