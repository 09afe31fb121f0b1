//! Contents of memory in a capture, as its cores see them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;

use backsight_capture::{Capture, MemoryDump};
use backsight_image::Image;

use super::search::name_of;

/// The dumps of a capture whose files are there.
#[derive(Debug, Default)]
pub(super) struct Dumps(Vec<Dump>);

/// A dump.
#[derive(Clone, Copy, Debug)]
struct Dump {
    /// Its index in the capture.
    index: usize,
    /// The core that it was read by; `None`: all see it.
    core: Option<usize>,
    /// The same for dumps that say the same, whichever core they were read by.
    contents: u32,
}

impl Dumps {
    pub fn of(capture: &Capture) -> Self {
        let mut known = HashMap::new();
        let mut numbered = Vec::new();
        for (index, dump) in capture.memory.iter().enumerate() {
            let MemoryDump { file, offset, length, address, space, pid, core } = dump;
            let number = known.len() as u32;
            let contents = known.entry((name_of(file), *offset, *length, *address, *space, *pid));
            // What is not there was reported when the capture was opened.
            let (contents, is_there) = *contents.or_insert_with(|| (number, file.exists()));
            if is_there {
                numbered.push(Dump { index, core: *core, contents });
            }
        }
        Self(numbered)
    }

    /// What a core sees: its own dumps hide those of others, and of each the later ones the earlier. Those that are hidden
    /// by one that says the same are left out.
    fn seen_by(&self, core: Option<usize>) -> Vec<Dump> {
        let is_own = |dump: &&Dump| dump.core.is_none() || dump.core == core;
        let (own, others): (Vec<&Dump>, Vec<&Dump>) = self.0.iter().partition(is_own);
        let mut known = HashSet::new();
        let newest_first = own.into_iter().rev().chain(others.into_iter().rev());
        let mut seen: Vec<_> = newest_first.filter(|dump| known.insert(dump.contents)).copied().collect();
        seen.reverse();
        seen
    }

    /// The indices of the dumps that a core sees: each may hide those before it.
    pub fn indices(&self, core: Option<usize>) -> impl Iterator<Item = usize> {
        self.seen_by(core).into_iter().map(|dump| dump.index)
    }
}

/// The code as cores see it. Cores that see the same share it.
#[derive(Debug)]
pub(super) struct Views {
    /// The first is what nobody in particular sees.
    views: Vec<View>,
    /// Of cores that have memory of their own: which of these.
    of_cores: BTreeMap<String, usize>,
}

/// The code as some core sees it.
#[derive(Debug, Default)]
pub(super) struct View {
    /// One of those that see it so; `None`: nobody in particular.
    pub core: Option<usize>,
    /// Made when somebody asks: where code changes, most never do.
    pub image: OnceLock<Image>,
}

impl Views {
    pub fn of(capture: &Capture, dumps: &Dumps) -> Self {
        let contents = |core| -> Vec<u32> { dumps.seen_by(core).iter().map(|dump| dump.contents).collect() };
        let (mut views, mut of_cores) = (vec![View::default()], BTreeMap::new());
        let mut known = HashMap::from([(contents(None), 0)]);
        let with_memory: BTreeSet<_> = capture.memory.iter().filter_map(|dump| dump.core).collect();
        // If the memory of one core is all there is, everyone sees it.
        for number in Some(with_memory).filter(|cores| cores.len() > 1).into_iter().flatten() {
            let Some(core) = capture.cores.get(number) else { continue };
            let view = *known.entry(contents(Some(number))).or_insert_with(|| {
                views.push(View { core: Some(number), ..View::default() });
                views.len() - 1
            });
            of_cores.insert(core.name.clone(), view);
        }
        Self { views, of_cores }
    }

    /// What a core sees.
    pub fn of_core(&self, core: Option<&str>) -> &View {
        let own = core.and_then(|core| self.of_cores.get(core));
        &self.views[own.copied().unwrap_or(0)]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &View> {
        self.views.iter()
    }

    /// Does every core see the same?
    pub fn are_one(&self) -> bool {
        self.views.len() == 1
    }
}
