//! Where packets go.
//!
//! Nearly all packets name an address and say nothing else about it. A tracer hands these over in a way of their
//! own, so that bytes are made of them without a [`Packet`] between.

use backsight_riscv::etrace::{
    BranchMap, Options, Packet, Params, Payload, Reported, encode, encode_address,
};
use backsight_riscv::ingress::{Block, Continuation, Port};

use super::Tracer;

/// Takes packets. A closure `|packet: Packet| …` takes them as values, [`Payloads`] as bytes.
///
/// A sink may refuse a packet, which is then lost. The tracer goes on without sending until the sink has room again,
/// says that packets were lost, and begins again.
pub trait Sink {
    /// Takes a packet of a tracer with these parameters and options. False: there was no room.
    fn packet(&mut self, packet: &Packet, params: &Params, options: &Options) -> bool;

    /// Takes an address field without flags and the branches before it: format 1, or 2 if there are none.
    #[inline]
    fn address(&mut self, map: BranchMap, address: u64, params: &Params, options: &Options) -> bool {
        let reported = Reported { address, ..Reported::default() };
        self.packet(&map.with_address(reported), params, options)
    }

    /// After a loss: is there room to begin again?
    #[inline]
    fn has_room(&self) -> bool {
        true
    }
}

impl<F: FnMut(Packet)> Sink for F {
    #[inline]
    fn packet(&mut self, packet: &Packet, _: &Params, _: &Options) -> bool {
        self(*packet);
        true
    }
}

/// Gives the payload of each packet to a closure.
#[derive(Clone, Copy, Debug)]
pub struct Payloads<F>(pub F);

impl<F: FnMut(&Payload)> Sink for Payloads<F> {
    #[inline]
    fn packet(&mut self, packet: &Packet, params: &Params, options: &Options) -> bool {
        (self.0)(&encode(packet, params, options));
        true
    }

    #[inline]
    fn address(&mut self, map: BranchMap, address: u64, params: &Params, _: &Options) -> bool {
        (self.0)(&encode_address(map, address, params));
        true
    }
}

/// A tracer with the sink of its packets: what a [`Builder`](backsight_riscv::ingress::Builder) gives blocks to.
#[derive(Debug)]
pub struct TracerPort<'a, S> {
    pub(super) encoder: &'a mut Tracer,
    pub(super) sink: &'a mut S,
}

impl<S: Sink> Port for TracerPort<'_, S> {
    // The builder makes blocks in registers; so they stay there.
    #[inline(always)]
    fn block(&mut self, block: &Block) {
        self.encoder.push(block, self.sink);
    }

    #[inline(always)]
    fn continuation(&mut self, block: &Continuation) -> bool {
        self.encoder.push_continuation(block, self.sink)
    }

    #[inline]
    fn gap(&mut self) {
        self.encoder.unqualified(self.sink);
    }
}
