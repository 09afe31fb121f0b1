//! The code that a trace is followed through: what the capture brings along, and what the user names.

mod dumps;
mod few;
mod files;
mod history;
mod holders;
mod log_reader;
mod over_time;
mod processes;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use backsight_capture::events::{Item, Mapping, Pid, State};
use backsight_capture::{Capture, EventClock, MemoryDump};
use backsight_core::{Address, AddressSpace, Context};
use backsight_image::{AllowedFiles, Budget, Code as _, Elf, ElfKind, Image, ImageSpec, TimedChange, Window};
use dumps::{Dumps, View, Views};
use files::{Files, Placement};
use history::{History, Moment};
use over_time::OverTime;
use processes::{OWN, Processes, Seen};
pub(crate) use search::Located;
use search::{ImageKey, Search, name_of};

use crate::states::StateIndex;
use crate::{Error, Result, Source, logs};

/// Nothing orders the changes of code and the execution.
pub(crate) const UNTIMED: &str = "code changed while the program ran, and its event log does not say when: what ran there is followed through the \
                       last version of it, so that execution is wrong where another one ran";

/// What a kernel that places itself at random moves by: the symbol that a mapping names may be a little above its start.
const KERNEL_ALIGNMENT: u64 = 2 << 20;

/// Changes that are looked at one by one: for more, all that was remembered is forgotten.
const MOST_CHANGES: usize = 64;

/// Mappings whose files are looked for until one says how wide registers are.
const MOST_PROGRAMS: usize = 4096;

/// All addresses of all processes.
const EVERYTHING: (AddressSpace, Range<u64>) = (AddressSpace::ANY, 0..u64::MAX);

/// How an ELF file was moved: by `base`, or, a kernel whose mapping is given, by where it begins.
fn bias_of(elf: &Elf, mapping: Placement, is_kernel: bool) -> u64 {
    match elf.kind {
        _ if is_kernel => {
            let first = elf.segments.first().map_or(0, |segment| segment.address);
            mapping.base.0.wrapping_sub(first) & !(KERNEL_ALIGNMENT - 1)
        }
        ElfKind::Relocatable => mapping.base.0,
        ElfKind::Fixed | ElfKind::Core if mapping.relocated => mapping.base.0,
        ElfKind::Fixed | ElfKind::Core => 0,
    }
}

/// The code of a capture, as each of its cores sees it.
#[derive(Debug)]
pub struct Code {
    capture: Arc<Capture>,
    specs: Arc<[ImageSpec]>,
    dumps: Dumps,
    /// All of it, whenever it was there.
    views: Views,
    /// The number of each core.
    cores: BTreeMap<String, u32>,
    processes: Arc<Processes>,
    /// What the event log says.
    history: Option<History>,
    /// Where code is looked up by time.
    over_time: Option<OverTime>,
    files: Arc<Files>,
    /// What a log of instructions has of the code, once somebody asked for code that nobody names.
    logged: OnceLock<Option<Image>>,
}

/// The code that a source ran, seen as it ran it: in each context, that of its process.
#[derive(Clone, Copy, Debug)]
pub struct SourceCode<'c> {
    code: &'c Code,
    core: Option<&'c str>,
    seen: Seen<'c>,
}

impl<'c> SourceCode<'c> {
    /// All of the code, whenever it was there.
    pub fn image(&self) -> &'c Image {
        self.code.of_core(self.core)
    }

    /// The image that names what is at an address: where code changes, that of what was there at the time.
    pub fn names_at(&self, space: AddressSpace, address: Address) -> &'c Image {
        match self.over_time() {
            Some((over_time, moment)) => over_time.names_at(self.seen_space(space), address, moment),
            None => self.image(),
        }
    }

    /// The image that all code comes from; `None` if it depends on the time, or on the process that the CPU was on.
    pub(crate) fn fixed_image(&self) -> Option<&'c Image> {
        let is_fixed = self.code.over_time.is_none() && self.code.history.is_none();
        is_fixed.then(|| self.image())
    }

    /// The number that the operating system gave to a context: in CONTEXTIDR, or in the field for virtual machines.
    pub fn context_id(&self, context: &Context) -> Option<u64> {
        self.code.processes.context_id(context)
    }

    /// The thread that runs in a context, by the number that the operating system gave to it; or the one that all of the trace belongs to.
    pub fn thread_number(&self, context: Option<&Context>) -> Option<u64> {
        let number = || self.code.processes.thread_number(self.context_id(context?)?);
        self.seen.thread.or_else(number)
    }

    /// What says how code was at the time, if that can be said.
    fn over_time(&self) -> Option<(&'c OverTime, (Moment<'c>, Window))> {
        let over_time = self.code.over_time.as_ref()?;
        Some((over_time, over_time.moment(self.seen.moment?)?))
    }

    /// The space that is meant: where it is that of the process that the CPU is on, the one of that process.
    fn seen_space(&self, space: AddressSpace) -> AddressSpace {
        if space.process() == OWN { self.code.processes.own_space(space, &self.seen) } else { space }
    }

    /// Have the programs 64-bit registers, as far as their files say? `None` if there is none.
    pub(crate) fn is_wide(&self) -> Option<bool> {
        let wide = |image: &Image| {
            let mut all =
                image.modules().iter().filter_map(|module| module.elf()).map(|elf| elf.wide).peekable();
            all.peek()?;
            Some(all.all(|wide| wide))
        };
        let (Some(over_time), Some(moment)) = (&self.code.over_time, self.seen.moment) else {
            return wide(self.image());
        };
        // One of the programs that run at the beginning speaks for all.
        wide(&over_time.named).or_else(|| wide(&over_time.dumps)).or_else(|| {
            let named = moment.first_mapped().iter().take(MOST_PROGRAMS);
            let mut found = named.filter_map(|mapped| mapped.named(&over_time.files));
            found.find_map(|named| wide(named.image(&over_time.files)))
        })
    }

    /// Goes to another time. Gives what is not as it was.
    pub fn enter(&mut self, window: Window) -> Vec<(AddressSpace, Range<u64>)> {
        let Some(earlier) = self.seen.moment else { return vec![EVERYTHING] };
        self.seen.moment = Some(earlier.enter(window));
        let is_changing = self.code.event_clock().is_some();
        let Some(before) = earlier.window().filter(|_| is_changing) else { return vec![EVERYTHING] };
        if window.from < before.from || window.to < before.to {
            return vec![EVERYTHING];
        }
        let changes = earlier.changes(before.from, window.to, MOST_CHANGES);
        if changes.len() > MOST_CHANGES {
            return vec![EVERYTHING];
        }
        let of = |change: &TimedChange| {
            let space = AddressSpace::ANY.in_process(change.process);
            (space, change.start..change.last.saturating_add(1))
        };
        let mut changed: Vec<_> = changes.iter().map(of).collect();
        if earlier.has_switched(self.seen.cpu, before.from, window.from) {
            changed.push((AddressSpace::ANY.in_process(OWN), 0..u64::MAX));
        } else if !changes.is_empty() {
            // What a CPU's own process sees may be any of these.
            let own =
                |(_, addresses): &(_, Range<u64>)| (AddressSpace::ANY.in_process(OWN), addresses.clone());
            changed.extend(changed.iter().map(own).collect::<Vec<_>>());
        }
        changed
    }
}

impl backsight_image::Code for SourceCode<'_> {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        let space = self.seen_space(space);
        match self.over_time() {
            Some((over_time, moment)) => over_time.bytes_at(space, address, moment),
            None => self.image().bytes_at(space, address).or_else(|| self.code.logged(space, address)),
        }
    }

    fn space_of(&self, context: &Context) -> AddressSpace {
        self.code.processes.space_of(context, &self.seen)
    }
}

impl Code {
    /// Does a context ID stand for one thread, as far as the capture says, and not for all those of a process?
    pub fn names_threads(&self) -> bool {
        self.processes.names_threads()
    }

    /// What a context ID stands for, in words: a thread or a process, where the capture says what the operating system
    /// keeps in CONTEXTIDR.
    pub fn thread_name(&self, context_id: u64) -> String {
        self.processes.thread_name(context_id)
    }

    /// Reads what has to be known before anything is looked up. Files that the event log names are opened when something
    /// in them is asked for.
    pub(crate) fn read(
        capture: Arc<Capture>,
        specs: Arc<[ImageSpec]>,
        allowed: AllowedFiles,
        budget: Option<u64>,
    ) -> Result<Self> {
        let search = Search::new(capture.clone(), allowed);
        let files = Arc::new(Files::new(search, specs.clone(), Budget::given(budget)));
        let numbered = capture.cores.iter().zip(0..);
        let cores = numbered
            .map(|(core, index)| (core.name.clone(), number_in(&core.name).unwrap_or(index)))
            .collect();
        let dumps = Dumps::of(&capture);
        let mut code = Self {
            views: Views::of(&capture, &dumps),
            dumps,
            cores,
            processes: Arc::new(Processes::of(&capture)),
            history: None,
            over_time: None,
            files,
            logged: OnceLock::new(),
            capture,
            specs,
        };
        let (mut named, mut dumps) = (code.files.new_image(), code.files.new_image());
        code.add_named(&mut named)?;
        if let Some(events) = &code.capture.events.clone() {
            let is_constant = !events.changes();
            code.add_dumps(&mut dumps, None);
            let mut history = History::new(events, code.processes.clone(), Some(code.files.clone()));
            // What never changes is looked up by time, too, where the log says all that is needed: no file is opened then.
            if !is_constant || code.views.are_one() && !history.has_unsized() {
                let (files, nameless) = (code.files.clone(), code.files.new_image());
                code.over_time = Some(OverTime { files, named, dumps, nameless, is_constant });
            } else {
                history.forget_mappings();
            }
            if !is_constant && events.replaces_code_untimed() {
                code.files.search().warnings.insert(UNTIMED.to_owned());
            }
            code.history = Some(history);
        }
        if code.over_time.is_none() {
            code.views.iter().for_each(|view| _ = code.image_of(view));
        }
        Ok(code)
    }

    /// The code that a source ran, as its follower sees it.
    pub fn seen_by(&self, source: &Source) -> SourceCode<'_> {
        let core = source.core().and_then(|core| self.cores.get_key_value(core));
        let (core, cpu) = (core.map(|(name, _)| name.as_str()), core.map(|(_, number)| *number));
        let seen = Seen { cpu, thread: source.thread(), ..self.seen() };
        SourceCode { code: self, core, seen }
    }

    /// The code as nobody in particular sees it, by what contexts say of processes.
    pub fn seen_by_all(&self) -> SourceCode<'_> {
        SourceCode { code: self, core: None, seen: self.seen() }
    }

    /// Code out of the lines of a log.
    fn logged(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        let read = || logs::code(&self.capture, self.files.new_image());
        self.logged.get_or_init(read).as_ref().and_then(|image| image.bytes_at(space, address))
    }

    /// Takes the code of a log from its index of states, so that it is not read for it. Where it was read already, that stays.
    pub fn use_index(&self, states: &StateIndex) {
        let Some(parts) = states.code() else { return };
        _ = self.logged.get_or_init(|| Some(logs::image_of(parts, self.files.new_image())));
    }

    fn seen(&self) -> Seen<'_> {
        Seen { cpu: None, thread: None, moment: self.history.as_ref().map(History::at_no_time) }
    }

    /// What says when the code changes; `None` if it does not.
    pub(crate) fn event_clock(&self) -> Option<EventClock> {
        let changing = self.over_time.as_ref().filter(|over_time| !over_time.is_constant);
        changing.map(|_| self.capture.event_clock)
    }

    /// The code that a source ran: memory of other cores, hidden by that of its own, hidden by what the user named.
    pub fn of(&self, source: &Source) -> &Image {
        self.of_core(source.core())
    }

    fn of_core(&self, core: Option<&str>) -> &Image {
        self.image_of(self.views.of_core(core))
    }

    fn image_of<'v>(&self, view: &'v View) -> &'v Image {
        view.image.get_or_init(|| self.make_image(view.core))
    }

    /// The code as nobody in particular sees it, whenever it was there.
    pub fn image(&self) -> &Image {
        self.of_core(None)
    }

    /// Files outside the capture that its event log names, by the names that find them again in a package.
    pub(crate) fn files_outside(&self) -> Vec<(String, Located)> {
        self.find_files();
        self.files.search().files_outside()
    }

    /// Looks for all files that the event log names.
    pub(crate) fn find_files(&self) {
        self.mappings(|mapping| {
            self.files.search().mapped(&(mapping.image.clone(), mapping.build_id.clone()));
        });
    }

    /// What could not be read, in words. Files are read when something in them is asked for: ask for this afterwards.
    pub fn warnings(&self) -> Vec<String> {
        self.files.search().warnings()
    }

    /// What could not be used of names and lines, in words. They are read when they are asked for: ask for this afterwards.
    pub fn problems(&self) -> Vec<String> {
        let made = self.views.iter().filter_map(|view| view.image.get());
        let named = self.over_time.iter().map(|over_time| &over_time.named);
        let images = made.chain(named);
        let mut problems: BTreeSet<String> = images.flat_map(Image::problems).collect();
        problems.extend(self.files.problems());
        problems.into_iter().collect()
    }

    /// The code that a core sees.
    fn make_image(&self, core: Option<usize>) -> Image {
        let mut image = self.files.new_image();
        self.add_mappings(&mut image);
        self.add_dumps(&mut image, core);
        // They could be read before.
        if let Err(error) = self.add_named(&mut image) {
            self.files.search().warnings.insert(error.to_string());
        }
        image
    }

    fn add_named(&self, image: &mut Image) -> Result {
        Ok(image.add_all(&self.specs, AddressSpace::ANY)?)
    }

    /// Adds memory contents: those of a core hide those of others.
    fn add_dumps(&self, image: &mut Image, core: Option<usize>) {
        for index in self.dumps.indices(core) {
            let dump = &self.capture.memory[index];
            // A process has a space of its own.
            let space = dump.pid.map_or(dump.space, |pid| self.processes.add(dump.space, pid));
            let contents = self.files.search().contents(&dump.file);
            let added = contents.and_then(|contents| {
                let (name, MemoryDump { offset, length, address, .. }) = (name_of(&dump.file), dump);
                let added = image.add_dump_contents(&name, contents, *offset, *length, *address, space);
                added.map_err(Error::from)
            });
            if let Err(error) = added {
                self.files.search().warnings.insert(error.to_string());
            }
        }
    }

    /// The mappings that the event log says began or were there.
    fn mappings(&self, mut take: impl FnMut(&Mapping)) {
        let Some(events) = &self.capture.events else { return };
        let mut records = events.records();
        while let Some(record) = records.next() {
            if let Item::Mapping(State::Start | State::Current, mapping) = &record.item {
                take(mapping);
            }
        }
    }

    /// The images that the event log says were mapped, each where it was. What was mapped over what, and when, is not
    /// asked: the last counts.
    fn add_mappings(&self, image: &mut Image) {
        let mut placed = LastPlaced::default();
        self.mappings(|mapping| {
            let key = (mapping.image.clone(), mapping.build_id.clone());
            let Some(file) = self.files.search().mapped(&key) else { return };
            let space = match mapping.pid {
                Pid::All => AddressSpace::ANY,
                Pid::Process(pid) => self.processes.add(AddressSpace::ANY, pid),
            };
            if !placed.is_new(space.process(), mapping, key) {
                return;
            }
            if let Err(error) = add_mapping(image, mapping.into(), file, space, &self.files) {
                self.files.search().warnings.insert(error.to_string());
            }
        });
    }
}

/// What was mapped last at addresses of processes: what is mapped again where it is need not be added again.
#[derive(Default)]
struct LastPlaced(BTreeMap<u32, BTreeMap<u64, (u64, u64, ImageKey)>>);

impl LastPlaced {
    fn is_new(&mut self, process: u32, mapping: &Mapping, key: ImageKey) -> bool {
        let start = mapping.base.0;
        let Some(size) = mapping.size.filter(|&size| size > 0 && !mapping.relocated) else {
            // It may lie over anything.
            self.0.remove(&process);
            return true;
        };
        let last = start.saturating_add(size - 1);
        let placed = (last, mapping.offset, key);
        let all = self.0.entry(process).or_default();
        if all.get(&start) == Some(&placed) {
            return false;
        }
        let reaches = |(&key, (last, ..)): (&u64, &(u64, _, _))| (*last >= start).then_some(key);
        let below = all.range(..start).next_back().and_then(reaches);
        let inside = all.range(start..=last).map(|(key, _)| *key);
        for covered in inside.chain(below).collect::<Vec<_>>() {
            all.remove(&covered);
        }
        all.insert(start, placed);
        true
    }
}

/// Adds a file where it was mapped.
fn add_mapping(
    image: &mut Image,
    mapping: Placement,
    file: Located,
    space: AddressSpace,
    files: &Files,
) -> Result {
    let Located { name, contents, .. } = file;
    let base = mapping.base;
    if Elf::is_object(&contents) {
        image.add_object(&name, &contents, Some(base), space, files.functions()).map(drop)?;
        return Ok(());
    }
    match mapping.size {
        size if mapping.relocated => {
            let shift = bias_of(&Elf::parse(&name, &contents)?, mapping, size.is_some());
            image.add_elf_contents_shifted(&name, contents, shift, space).map(drop)?;
        }
        Some(size) => {
            let there = (contents.len() as u64).saturating_sub(mapping.offset).min(size);
            image.add_dump_contents(&name, contents, mapping.offset, Some(there), base, space).map(drop)?;
        }
        None if Elf::is_elf(&contents) => {
            image.add_elf_contents(&name, contents, Some(base), space).map(drop)?;
        }
        None => {}
    }
    Ok(())
}

/// The number of a CPU in its name, as in `cpu_3`.
fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix("cpu")?.trim_start_matches('_').parse().ok()
}
