//! Trace packages.

use crate::folder::Folder;
use crate::{Capture, Error};
use std::sync::Arc;

/// The file that makes a folder a trace package.
pub(crate) const ENTRY: &str = "contents.ini";

pub(crate) fn read(_folder: Arc<dyn Folder>, name: &str) -> Result<Capture, Error> {
    Err(Error::file(name, "later"))
}
