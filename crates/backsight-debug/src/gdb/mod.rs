//! The remote protocol of gdb.
