//! Following PTM trace.
//!
//! Each atom stands for a walk up to and including the next waypoint: a branch or a barrier. A branch packet is such an
//! atom with the address where execution goes on; with an exception in it, it stands for no atom. A waypoint update says
//! how far execution went without a waypoint.

mod flow;
mod follower;

use backsight_arm::ptm::Config;

pub use crate::etm::Options;

/// Follows the execution that a PTM stream reports.
pub type Follower<C> = crate::etm::Follower<C, Config>;

/// What a [`Follower`] knows between two packets.
pub type FollowerState = crate::etm::FollowerState<Config>;
