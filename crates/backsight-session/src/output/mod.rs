//! A session in the forms that tools take.

mod c_table;
mod openocd;
mod package;
mod words;

pub use c_table::c_table;
pub use openocd::openocd;
pub use package::{BUFFER, CONTENTS, METADATA, package};
pub use words::words;

use crate::sequence::RegisterAccess;

/// What a step is for, as a comment.
fn comment(step: &RegisterAccess) -> String {
    let place = format!("{} {}", step.component, step.register);
    if step.why.is_empty() { place } else { format!("{place}: {}", step.why) }
}
