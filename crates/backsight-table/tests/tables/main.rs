//! Tables of real captures.

mod documentation;
mod export;
mod listings;
mod pieces;
mod queries;
mod support;
