//! What a follower knows between two packets, to leave it and to take it up again.
//!
//! Followers that know the same say the same of the packets that follow, whatever they have seen before. What they have
//! read of the code, and what they have counted, is no part of that.

use std::collections::VecDeque;

use backsight_arm::etm4::{AddressPacket, CycleCount};
use backsight_core::Located;
use backsight_image::Code;

use super::flow::FlowState;
use super::{Element, Follower, Resolver};

/// All that decides what a [`Follower`] says of the packets that follow.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowerState {
    resolver: Resolver,
    flow: FlowState,
    count: Option<Located<CycleCount>>,
    address: Option<Located<AddressPacket>>,
    waiting: VecDeque<Located<Element>>,
    end: u64,
}

impl<C: Code> Follower<C> {
    /// What it knows now.
    pub fn state(&self) -> FollowerState {
        let Self { resolver, flow, count, address, waiting, end } = self;
        FollowerState {
            resolver: resolver.clone(),
            flow: flow.state(),
            count: *count,
            address: *address,
            waiting: waiting.clone(),
            end: *end,
        }
    }

    /// Goes on as a follower of the same configuration and code that knows this. Counts go on.
    pub fn restore(&mut self, saved: &FollowerState) {
        let FollowerState { resolver, flow, count, address, waiting, end } = saved;
        self.resolver.clone_from(resolver);
        self.flow.restore(flow);
        self.waiting.clone_from(waiting);
        (self.count, self.address, self.end) = (*count, *address, *end);
    }
}
