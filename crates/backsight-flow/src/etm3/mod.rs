//! Following ETMv3 trace.
//!
//! Each atom stands for one instruction, and says whether it was executed. Direct branches lead on by themselves, all
//! others need a branch packet. An exception may cancel the instruction before it, so that the newest instruction waits
//! until something else is certain. Data packets are transfers of the newest load or store.

mod data;
mod flow;
mod follower;
mod held;
mod waiting;

use backsight_arm::etm3::Config;

pub use crate::etm::Options;

/// Follows the execution that an ETMv3 stream reports.
pub type Follower<C> = crate::etm::Follower<C, Config>;

/// What a [`Follower`] knows between two packets.
pub type FollowerState = crate::etm::FollowerState<Config>;
