//! One file per command.

pub mod bench;
pub mod completions;
pub mod compress;
pub mod convert;
pub mod dap;
pub mod decompress;
pub mod diff;
pub mod doctor;
pub mod encode;
pub mod export;
pub mod find;
pub mod flow;
pub mod gdb;
pub mod index;
pub mod info;
pub mod lab;
pub mod man;
pub mod packets;
pub mod pieces;
pub mod profile;
pub mod record;
pub mod report;
pub mod rtl;
pub mod session;
pub mod state;
pub mod view;

/// What `export` and `pieces` say in a program that was built without tables.
#[cfg(not(feature = "tables"))]
fn without_tables() -> crate::failure::Failure {
    crate::failure::Failure::new(
        "this backsight was built without tables: cargo build --release --features tables builds it with them",
    )
}
