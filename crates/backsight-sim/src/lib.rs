//! An RV64GC user-mode simulator that reports every retired instruction.
