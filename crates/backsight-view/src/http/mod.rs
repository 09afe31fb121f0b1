//! The server: HTTP, as far as a page of this machine needs it.
//!
//! It listens on the loopback interface. Who asks has to know a random key, which is the first part of every path; has to name this
//! server as host, so that no name of another machine leads here; and must not be a page of another origin. Requests are of one method and
//! have no body, are read up to a size and for a time, and only so many are answered at once. Nothing that is asked for changes anything.

mod files;
mod gate;
mod request;
mod serve;

pub use gate::new_key;
pub use request::{Request, RequestError, parse};
pub use serve::{ServeOptions, address, listen, serve};
