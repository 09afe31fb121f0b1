//! Tables of real captures.

mod documentation;
mod export;
mod listings;
mod pieces;
mod profiles;
mod queries;
mod support;
