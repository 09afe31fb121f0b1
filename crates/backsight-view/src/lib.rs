//! A capture of any length in the browser: a small server on this machine, and the page that it serves.
//!
//! Nothing is made beforehand but an index of [moments](backsight::moments). What the page shows is decoded when it is looked at: the
//! calls of a window down to a budget of pixels, the profile of a window, the stack of calls and the code at an instruction, steps in
//! both directions. A [`View`] answers such questions as JSON; [`serve`] lets a page of this machine ask them.
//!
//! # What is where
//!
//! `chart` calls over a window, by columns: calls that are wide enough, and sums where they are too small; `samples` the same of windows
//! that are too long to be decoded for a picture; `recording` a capture with its index; `windows` profiles of windows, and exporters;
//! `walk` where execution is at a moment, and steps; `search`; `ask` what a request asks for; `view` all of it; `http/` the server: what
//! it takes for a request, whom it answers, when it ends; `page/` the page, which has the modules of a
//! [report](backsight_profile::report) besides.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod ask;
mod chart;
mod http;
mod names;
mod overview;
mod recording;
mod running;
mod samples;
mod search;
mod view;
mod walk;
mod windows;

pub use http::{Request, RequestError, ServeOptions, address, listen, new_key, parse, serve};
pub use view::{Answer, View, ViewOptions};
