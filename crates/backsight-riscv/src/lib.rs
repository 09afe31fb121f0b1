//! RISC-V E-Trace and N-Trace, decoded and encoded.
