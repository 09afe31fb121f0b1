//! What holds for the execution of a source at the moment: time, cycles, context.

use backsight::Event;
use backsight::SourceCode;
use backsight::core::{AddressSpace, Context};
use backsight::flow::{HardwareEvent, SourceTime};
use backsight::image::Code as _;

/// What holds for a hart at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    pub hart: u16,
    pub time: Option<u64>,
    pub cycles: Option<u64>,
    pub context: Option<Context>,
    pub space: AddressSpace,
}

impl Now {
    fn new(hart: u16) -> Self {
        Self { hart, time: None, cycles: None, context: None, space: AddressSpace::ANY }
    }
}

/// The time that an event says it is.
pub(crate) fn time_of(event: &Event) -> Option<u64> {
    match event {
        Event::Timestamp { value, .. } | Event::SourceTime(SourceTime::Global { value, .. }) => Some(*value),
        Event::Software(message) => message.time(),
        Event::Hardware(HardwareEvent::System(event)) => event.time(),
        _ => None,
    }
}

/// Ends a source at its first timestamp after a time.
pub(crate) struct Until {
    time: Option<u64>,
    pub is_passed: bool,
}

impl Until {
    /// Until this time, or to the end.
    pub fn new(time: Option<u64>) -> Self {
        Self { time, is_passed: false }
    }

    /// Is the time over with this event?
    #[inline]
    pub fn passes(&mut self, event: &Event) -> bool {
        self.is_passed |= self.time.is_some_and(|time| time_of(event) > Some(time));
        self.is_passed
    }
}

/// What holds for each hart of a source.
pub(crate) struct Tracker {
    harts: Vec<Now>,
    current: usize,
    /// Something has changed since [`Tracker::index`] was asked for.
    is_changed: bool,
    /// What held for the rows that are put together.
    pub states: Vec<Now>,
}

impl Tracker {
    /// At the beginning of a source, or where these were handed over.
    pub fn new(harts: Vec<Now>) -> Self {
        let harts = if harts.is_empty() { vec![Now::new(0)] } else { harts };
        Self { harts, current: 0, is_changed: true, states: Vec::new() }
    }

    /// What follows is of this hart.
    #[inline]
    pub fn turn_to(&mut self, hart: u16) {
        if self.harts[self.current].hart != hart {
            self.find(hart);
        }
    }

    #[cold]
    fn find(&mut self, hart: u16) {
        let known = self.harts.iter().position(|known| known.hart == hart);
        self.current = known.unwrap_or_else(|| {
            self.harts.push(Now::new(hart));
            self.harts.len() - 1
        });
        self.is_changed = true;
    }

    /// What holds now.
    pub fn now(&self) -> &Now {
        &self.harts[self.current]
    }

    /// What holds for each hart.
    pub fn harts(&self) -> &[Now] {
        &self.harts
    }

    /// The number of what holds now, among those that rows are put together with.
    #[inline]
    pub fn index(&mut self) -> u32 {
        if self.is_changed || self.states.is_empty() {
            self.states.push(self.harts[self.current]);
            self.is_changed = false;
        }
        (self.states.len() - 1) as u32
    }

    /// The number of what held at another moment.
    pub fn index_of(&mut self, now: Now) -> u32 {
        if self.states.last() != Some(&now) {
            self.states.push(now);
            self.is_changed = true;
        }
        (self.states.len() - 1) as u32
    }

    /// Rows were put together.
    pub fn clear(&mut self) {
        self.states.clear();
    }

    /// The code is not what it was: a context may belong to another process.
    pub fn renew_spaces(&mut self, code: &SourceCode<'_>) {
        for now in &mut self.harts {
            now.space = now.context.map_or(now.space, |context| code.space_of(&context));
        }
        self.is_changed = true;
    }

    /// Takes note of an event.
    pub fn event(&mut self, event: &Event, code: &SourceCode<'_>) {
        let now = &mut self.harts[self.current];
        match event {
            Event::Context(context, _) => {
                (now.context, now.space) = (Some(*context), code.space_of(context));
            }
            Event::CycleCount(Some(cycles)) => {
                now.cycles = Some(now.cycles.unwrap_or(0) + u64::from(*cycles));
            }
            event => match time_of(event) {
                Some(time) => now.time = Some(time),
                None => return,
            },
        }
        self.is_changed = true;
    }
}
