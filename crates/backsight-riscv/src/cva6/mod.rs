//! The dialect of E-Trace that an encoder for the CVA6 core speaks.
//!
//! The hardware is that of Umberto Laghi, *Efficient Trace for RISC-V: Design, Evaluation, and Integration on a CVA6
//! multicore design*, master's thesis, University of Bologna, December 2024. Its packets are those of the
//! specification, [`etrace::Packet`](crate::etrace::Packet), with fields and rules of their own:
//!
//! - only the address of a packet is compressed, in place, to whole bytes and one bit of sign; how many bytes there are
//!   follows from the length of the payload, which is padded with zeros;
//! - addresses are not shifted, there is no irdepth, and interrupts have a tval too;
//! - the flags after an address are chained to the top of the absolute address, which is not in the packet and 0 in
//!   practice;
//! - 16 to 30 branches with an address are written as 0 branches ([`BranchMap::UNCOUNTED`]); with 31 there is no
//!   address;
//! - there is neither a predictor nor a jump target cache: format 0 is not used.
//!
//! A stream of it is decoded and encoded by [`etrace::Decoder`](crate::etrace::Decoder) and
//! [`etrace::Encoder`](crate::etrace::Encoder) with [`params`]: the dialect is named there
//! ([`Dialect::Cva6`]), and payloads come here.

mod payload;
mod support;

pub use payload::{decode, encode};
pub(crate) use support::{read_support, write_support};

#[cfg(doc)]
use crate::etrace::BranchMap;
use crate::etrace::{Dialect, Params, SupportLayout};

/// The parameters of the hardware, whose captures are beats of 40 bytes.
pub fn params() -> Params {
    Params {
        ecause_width: 64,
        iaddress_lsb: 0,
        iaddress_width: 64,
        layout: SupportLayout::Cva6,
        dialect: Dialect::Cva6,
        ..Params::default()
    }
}
