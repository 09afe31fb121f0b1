//! Following ETMv4 and ETE trace.
//!
//! A [`Resolver`] turns packets into elements that happened; a [`Follower`] walks them through the code.
//! [`Branches`] tells what can be told without the code.

mod branches;
mod conditional;
mod element;
mod follower;
mod position;
mod resolve;
mod stretches;

pub use branches::{Branches, Gap, Record, Step};
use conditional::Conditional;
pub use element::Element;
pub use follower::{Follower, Options};
use position::{Place, Position};
pub use resolve::Resolver;
