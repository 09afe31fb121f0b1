//! The code that a trace is followed through: what the capture brings along, and what the user names.

use std::path::Path;

use backsight_capture::{Capture, FileRef};
use backsight_core::AddressSpace;
use backsight_image::{Image, ImageSpec};
use clap::Args;

use crate::failure::{Failure, Result};

/// Which code to use.
#[derive(Args, Clone, Debug, Default)]
pub struct ImageArgs {
    /// Code besides what the capture brings along: an ELF file, or a raw dump with its address. A relocatable ELF
    /// file is loaded at ADDRESS. May be given several times; of overlapping ones the last wins
    #[arg(long, value_name = "FILE[@ADDRESS]", help_heading = "Code")]
    pub image: Vec<ImageSpec>,
}

/// Longest file that is read out of an archive.
const LONGEST_ARCHIVED: u64 = 1 << 30;

/// The code that a core sees: the dumps of other cores, hidden by its own, hidden by what the user names. Files that
/// are missing are reported, and the flow goes on without them.
pub fn for_core(
    arguments: &ImageArgs,
    capture: &Capture,
    core: Option<&str>,
    mut warn: impl FnMut(String),
) -> Result<Image> {
    let mut image = Image::new();
    let own = |index: Option<usize>| {
        let name = index.and_then(|index| capture.cores.get(index)).map(|core| core.name.as_str());
        name.is_none() || name == core
    };
    let (mine, others): (Vec<_>, Vec<_>) = capture.memory.iter().partition(|dump| own(dump.core));
    for dump in others.into_iter().chain(mine) {
        let added = match dump.file.location() {
            Some(path) => image.add_dump(&path, dump.offset, dump.length, dump.address, dump.space),
            None => image.add_dump_contents(
                Path::new(dump.file.path()),
                archived(&dump.file)?,
                dump.offset,
                dump.length,
                dump.address,
                dump.space,
            ),
        };
        if let Err(error) = added {
            warn(error.to_string());
        }
    }
    for spec in &arguments.image {
        image.add(spec, AddressSpace::ANY).map_err(|error| Failure::new(format!("--image: {error}")))?;
    }
    Ok(image)
}

fn archived(file: &FileRef) -> Result<Vec<u8>> {
    file.read(LONGEST_ARCHIVED).map_err(Failure::new)
}
