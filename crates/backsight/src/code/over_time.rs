//! Code as it was at a time: what the event log says was mapped, and what is the same all the time.

use std::sync::Arc;

use backsight_core::{Address, AddressSpace};
use backsight_image::{Code, Image, Window};

use super::files::Files;
use super::history::{Look, Moment};

/// The end of time, to ask what was there last.
const END: Window = Window { from: u64::MAX - 1, to: u64::MAX - 1 };

/// Processes that an address is looked up in where nobody says which one runs: more than systems have.
const MOST_PROCESSES: usize = 4096;

/// What lies over and under what the log says.
#[derive(Debug)]
pub(crate) struct OverTime {
    pub files: Arc<Files>,
    /// What the user named: it hides everything.
    pub named: Image,
    /// Memory contents: what nothing else hides.
    pub dumps: Image,
    /// What names nothing.
    pub nameless: Image,
    /// Nothing that the log says was ever taken back: time makes no difference.
    pub is_constant: bool,
}

impl OverTime {
    /// The moment to look at; `None` if nobody knows the time and it makes a difference.
    pub fn moment<'c>(&self, moment: Moment<'c>) -> Option<(Moment<'c>, Window)> {
        let moment = if self.is_constant { moment.enter(END) } else { moment };
        Some((moment, moment.window()?))
    }

    /// The processes that may be meant in a span of time. Of very many only some are tried, since each address is looked up
    /// in all, and a warning says so.
    fn processes(&self, moment: Moment<'_>, window: Window) -> Vec<u32> {
        let mut all = moment.processes(window, MOST_PROCESSES);
        if all.len() > MOST_PROCESSES {
            all.truncate(MOST_PROCESSES);
            self.files.search().warnings.insert(format!(
                "nothing says which process runs, and more than {MOST_PROCESSES} have code: it is looked up in \
                 {MOST_PROCESSES} of them, and that of others is missing (the trace has no context IDs, or \
                 [events] contextidr does not say what they are)"
            ));
        }
        all
    }

    /// The bytes at an address of a space, in a span of time.
    pub fn bytes_at<'c>(
        &'c self,
        space: AddressSpace,
        address: Address,
        (moment, window): (Moment<'c>, Window),
    ) -> Option<&'c [u8]> {
        if let Some(bytes) = self.named.bytes_at(space, address) {
            return Some(bytes);
        }
        let look = |process| moment.look(process, address.0, window, &self.files);
        // What lies below ends where something above it begins.
        let room_to =
            |start: Option<u64>| usize::try_from(start.unwrap_or(u64::MAX) - address.0).unwrap_or(usize::MAX);
        let next_start = |process| room_to(moment.next_start(process, address.0, window));
        let mut room = room_to(self.named.next_start(space, address).map(|start| start.0));
        for process in [space.process(), 0] {
            match look(process) {
                Look::Bytes(bytes) => return Some(&bytes[..bytes.len().min(room)]),
                Look::Unknown => return None,
                Look::Nothing => room = room.min(next_start(space.process())),
            }
        }
        // As long as nobody says which process it is, code of every process is seen.
        let all = if space.process() == 0 { self.processes(moment, window) } else { Vec::new() };
        let mut any = all.into_iter().map(look);
        let any = any.find_map(|seen| if let Look::Bytes(bytes) = seen { Some(bytes) } else { None });
        room = room.min(next_start(0));
        let below = any.or_else(|| self.dumps.bytes_at(space, address))?;
        Some(&below[..below.len().min(room)])
    }

    /// The image that names what was at an address of a space, in a span of time.
    pub fn names_at<'c>(
        &'c self,
        space: AddressSpace,
        address: Address,
        (moment, window): (Moment<'c>, Window),
    ) -> &'c Image {
        if self.named.bytes_at(space, address).is_some() {
            return &self.named;
        }
        let look = |process| moment.names(process, address.0, window, &self.files);
        let all = || if space.process() == 0 { self.processes(moment, window) } else { Vec::new() };
        let found = look(space.process()).or_else(|| look(0)).or_else(|| all().into_iter().find_map(look));
        // What was patched, or cannot be found, has no name. Memory contents may be of a file that has some.
        match found {
            Some(image) => image.unwrap_or(&self.nameless),
            None => &self.dumps,
        }
    }
}
