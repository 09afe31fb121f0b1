//! The program as its users meet it: the built binary, with its exit status, standard output and standard error.

mod bare;
mod captures;
mod compress;
mod conventions;
mod convert;
mod dap;
mod doctor;
mod etrace;
mod finding;
mod flow;
mod gdb;
mod host_files;
mod hostile;
mod listing_options;
mod listings;
mod manners;
mod messages;
mod outputs;
mod profile;
mod riscv;
mod rtl;
mod session;
mod shrinking;
mod support;
mod windowed_counts;
mod windows;
