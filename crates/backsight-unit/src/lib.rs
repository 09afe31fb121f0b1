//! Trace units in software: executed instructions in, trace bytes out.
