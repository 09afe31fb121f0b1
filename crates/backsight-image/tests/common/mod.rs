//! What several tests use; none uses all of it.
#![allow(dead_code)]

pub mod headers;
pub mod toolchain;
