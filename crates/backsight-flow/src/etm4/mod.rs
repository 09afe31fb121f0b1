//! Following ETMv4 and ETE trace.
//!
//! A [`Resolver`] turns packets into elements that happened; a [`Follower`] walks them through the code.
//! [`Branches`] lists what is known without the code.

mod branches;
mod conditional;
pub mod data_match;
mod element;
mod flow;
mod follower;
mod position;
mod remembered;
mod resolve;
mod saved;
mod without_atoms;

pub use branches::{Branches, Gap, Record, Step};
use conditional::Conditional;
pub use element::Element;
pub use follower::{Follower, FollowerInput, Options};
pub use resolve::Resolver;
pub use saved::FollowerState;
