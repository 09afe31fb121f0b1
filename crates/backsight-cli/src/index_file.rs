//! Where indexes are kept: beside the capture, or in the user's cache folder.
//!
//! There are two: of the moments of a capture, and of the states of a log.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight::Capture;
use backsight::moments::{Identity, Index, Moments};
use backsight::states::StateIndex;

use crate::args::CaptureArgs;
use crate::output::say;

/// Most bytes of a file that is taken for an index: those of one of the most points.
const MOST: u64 = 1 << 26;

/// What names of indexes end in: of moments, and of states.
pub const MOMENTS: &str = ".index";
pub const STATES: &str = ".states";

/// The file beside a capture: `run` has `run.index`, whether it is a file or a folder.
pub fn beside(capture: &Path, ending: &str) -> Option<PathBuf> {
    let mut name = capture.file_name()?.to_owned();
    name.push(ending);
    Some(capture.with_file_name(name))
}

/// The file in the user's cache folder.
pub fn in_cache(identity: Identity, ending: &str) -> Option<PathBuf> {
    let named =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(folder.join("backsight").join(format!("{identity}{ending}")))
}

/// The moments of a capture, by its index if there is one that belongs to it.
pub fn moments<'c>(arguments: &CaptureArgs, capture: &'c Capture, quiet: bool) -> Moments<'c> {
    let index = find(&arguments.capture, capture, quiet);
    // It has the code of a log, which would have to be read for it.
    drop(states(arguments, capture, quiet));
    index.into_iter().fold(capture.moments(), Moments::with_index)
}

/// The index of a capture that was opened from a place, if there is one that belongs to it.
pub fn find(place: &Path, capture: &Capture, quiet: bool) -> Option<Arc<Index>> {
    first(place, MOMENTS, quiet, &|| capture.identity().ok(), &read)
}

/// The index of the states of a log, if there is one that belongs to it. Its code is used.
pub fn states(arguments: &CaptureArgs, capture: &Capture, quiet: bool) -> Option<Arc<StateIndex>> {
    capture.log()?;
    let open = |path: &Path, identity| {
        let file = File::open(path).map_err(|error| error.to_string())?;
        StateIndex::open(file, identity).map_err(|problem| problem.to_string())
    };
    let found = first(&arguments.capture, STATES, quiet, &|| capture.identity_of_trace().ok(), &open)?;
    if let Ok(code) = capture.code() {
        code.use_index(&found);
    }
    Some(found)
}

/// The first file that is an index of a capture.
fn first<I>(
    place: &Path,
    ending: &str,
    quiet: bool,
    identity: &dyn Fn() -> Option<Identity>,
    read: &dyn Fn(&Path, Identity) -> Result<I, String>,
) -> Option<Arc<I>> {
    if place == Path::new("-") {
        return None;
    }
    let beside = beside(place, ending).filter(|path| path.is_file());
    // To find out what a capture is takes time, and is in vain where there can be no index.
    let cache = in_cache_folder().filter(|folder| folder.is_dir());
    if beside.is_none() && cache.is_none() {
        return None;
    }
    let identity = identity()?;
    let cached = in_cache(identity, ending).filter(|path| path.is_file());
    for path in beside.into_iter().chain(cached) {
        match read(&path, identity) {
            Ok(index) => return Some(Arc::new(index)),
            Err(why) if !quiet => say(format_args!(
                "warning: {}: {why}: it is not used; `backsight index` makes one that is",
                path.display()
            )),
            Err(_) => {}
        }
    }
    None
}

fn in_cache_folder() -> Option<PathBuf> {
    in_cache(Identity::default(), MOMENTS)?.parent().map(Path::to_owned)
}

fn read(path: &Path, identity: Identity) -> Result<Index, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST {
        return Err("too long for an index".to_owned());
    }
    Index::from_bytes(&bytes, identity).map_err(|problem| problem.to_string())
}
