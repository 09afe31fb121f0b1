//! Windows of several sources, each taken by a state of its own.

use super::moment::Window;
use super::reach::{Found, Moments};
use super::windowed::InWindow;
use crate::decode::{Decode, Execution};
use crate::{Result, Source};

/// A window of a source that was taken.
#[derive(Clone, Debug)]
pub struct Taken<S> {
    /// The source.
    pub source: Source,
    /// What took it.
    pub state: S,
    /// What became of it.
    pub found: Found,
}

impl<'c> Moments<'c> {
    /// Gives windows of sources to states that are made for them, on up to so many threads; 0 is as many as the machine has cores.
    /// A source is decoded on one thread.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn take_each<S: InWindow + Send>(
        &self,
        decode: &Decode<'c, Execution>,
        windows: Vec<(Source, Window)>,
        threads: usize,
        make: impl Fn(&Source) -> S + Sync,
    ) -> Result<Vec<Taken<S>>> {
        let threads = decode.clone().threads(threads).thread_count();
        let take = |(source, window): (Source, Window), _| {
            let mut state = make(&source);
            let found = self.take(decode.clone(), &source, window, &mut state)?;
            Ok(Taken { source, state, found })
        };
        crate::decode::map(windows, threads, take).into_iter().collect()
    }
}
