//! Calls over a window of a source, by columns of a picture: calls that are wide enough, one by one, and where they are too small, what
//! they sum to. However many calls there are, an answer has no more than its columns and rows have room for.

use backsight::calls::{KnownCalls, ShadowStack, UnderWay, Visit};
use backsight::core::Describe as _;
use backsight::core::describe::write_text;
use backsight::flow::Range;
use backsight::image::Window as TimeSpan;
use backsight::messages::Messages;
use backsight::moments::{InWindow, Place};
use backsight::{Event, Item, SourceCode};

use crate::names::{NameCache, Names, shown};

/// Threads of a source that have lanes of their own. Where there are more, the others share the last.
const MOST_LANES: usize = 1 << 12;

/// Marks that have words; of more it is said how many there are.
const MOST_MARKS: usize = 4_096;

/// What is looked at, and how closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    /// The first instruction, and the one after the last.
    pub from: u64,
    pub to: u64,
    /// Columns of the picture.
    pub columns: u32,
    /// The rows that are wanted: calls with so many around them, and so many rows from there.
    pub first_row: u32,
    pub rows: u32,
}

impl Grid {
    pub const fn length(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Is something as wide as a column?
    pub fn shows(&self, begin: u64, end: u64) -> bool {
        let width = end.min(self.to).saturating_sub(begin.max(self.from));
        u128::from(width) * u128::from(self.columns) >= u128::from(self.length().max(1))
    }

    /// The column that an instruction is in.
    pub fn column(&self, number: u64) -> u32 {
        let offset = number.clamp(self.from, self.to.max(self.from)) - self.from;
        let column = u128::from(offset) * u128::from(self.columns) / u128::from(self.length().max(1));
        (column as u32).min(self.columns.saturating_sub(1))
    }

    /// Where a column begins.
    pub fn begin(&self, column: u32) -> u64 {
        self.from + (u128::from(self.length()) * u128::from(column) / u128::from(self.columns.max(1))) as u64
    }
}

/// Who executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub hart: u16,
    pub thread: Option<u64>,
}

/// It began before what was looked at; it goes on after it; where it ended is known roughly.
pub(crate) const BEFORE: u8 = 1;
pub(crate) const AFTER: u8 = 2;
pub(crate) const ABOUT: u8 = 4;

/// A call that is wide enough, or a turn of it where a thread has turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub lane: u32,
    pub row: u32,
    pub begin: u64,
    pub end: u64,
    pub name: u32,
    pub flags: u8,
}

/// What calls in some columns sum to: the function with the largest part, instructions of all, and how many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub lane: u32,
    pub row: u32,
    pub begin: u64,
    pub end: u64,
    pub name: u32,
    pub instructions: u64,
    pub calls: u64,
}

/// Something that happened between two instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub lane: u32,
    pub at: u64,
    pub kind: &'static str,
    pub words: String,
}

/// Calls of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chart {
    pub lanes: Vec<Lane>,
    /// Rows of each lane, those that are not wanted included.
    pub depths: Vec<u32>,
    pub calls: Vec<Call>,
    pub sums: Vec<Sum>,
    pub marks: Vec<Mark>,
    /// Marks that there was no room for.
    pub more_marks: u64,
    /// What time it was before some instructions.
    pub times: Vec<(u64, u64)>,
    /// Instructions, by lane.
    pub instructions: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Open {
    name: u32,
    address: u64,
    begin: u64,
    flags: u8,
}

/// Calls in one column that are too small.
#[derive(Default)]
struct Cell {
    column: u32,
    /// Functions, with instructions and calls.
    parts: Vec<(u32, u64, u64)>,
}

/// Functions of a cell that are told apart.
const MOST_PARTS: usize = 64;

#[derive(Default)]
struct LaneRows {
    open: Vec<Option<Open>>,
    cells: Vec<Cell>,
}

/// Which calls are to be looked up once an instruction is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// Those that were under way when the window began.
    Window,
    /// Those of a thread that has its turn again.
    Turn,
}

struct Hart<'c> {
    number: u16,
    stack: ShadowStack<'c>,
    lane: usize,
    /// Instructions of the source when the stay began that goes on.
    began: u64,
    pending: Pending,
}

/// Makes a chart of what it is given.
pub(crate) struct Charter<'c, 'v> {
    pub chart: Chart,
    grid: Grid,
    code: SourceCode<'c>,
    names: NameCache<'v>,
    harts: Vec<Hart<'c>>,
    rows: Vec<LaneRows>,
    count: u64,
    is_inside: bool,
    visits: Vec<Visit<'c>>,
    messages: Messages,
    time: Option<u64>,
}

impl<'c, 'v> Charter<'c, 'v> {
    pub fn new(code: SourceCode<'c>, grid: Grid, names: &'v Names) -> Self {
        Self {
            chart: Chart::default(),
            grid,
            code,
            names: NameCache::new(names),
            harts: Vec::new(),
            rows: Vec::new(),
            count: 0,
            is_inside: false,
            visits: Vec::new(),
            messages: Messages::new(),
            time: None,
        }
    }

    /// The window ends.
    pub fn finish(mut self) -> Chart {
        // A decode that was given up may not have come to it.
        if !self.is_inside {
            return Chart::default();
        }
        for hart in 0..self.harts.len() {
            let Self { harts, visits, .. } = &mut self;
            harts[hart].stack.flush(&mut |visit| visits.push(visit));
            self.take_visits(hart);
            let lane = self.harts[hart].lane;
            self.close_all(lane, AFTER);
        }
        for lane in 0..self.rows.len() {
            for row in 0..self.rows[lane].cells.len() {
                self.end_cell(lane, row);
            }
        }
        self.chart
    }

    fn hart(&mut self, number: u16) -> usize {
        if let Some(known) = self.harts.iter().position(|hart| hart.number == number) {
            return known;
        }
        let lane = if self.is_inside { self.lane(Lane { hart: number, thread: None }) } else { usize::MAX };
        let (stack, began, pending) = (ShadowStack::new(self.code), self.count, Pending::Nothing);
        self.harts.push(Hart { number, stack, lane, began, pending });
        self.harts.len() - 1
    }

    fn lane(&mut self, lane: Lane) -> usize {
        let lanes = &mut self.chart.lanes;
        if let Some(known) = lanes.iter().position(|one| *one == lane) {
            return known;
        }
        if lanes.len() >= MOST_LANES {
            return lanes.len() - 1;
        }
        lanes.push(lane);
        self.chart.depths.push(0);
        self.chart.instructions.push(0);
        self.rows.push(LaneRows::default());
        self.rows.len() - 1
    }

    /// A hart takes what happened next.
    fn push(&mut self, hart: usize, event: &Event) {
        let Self { harts, visits, count, .. } = self;
        let known = &mut harts[hart];
        known.stack.elsewhere(count.saturating_sub(known.stack.instructions()));
        let thread = known.stack.thread();
        known.stack.push(event, &mut |visit| visits.push(visit));
        if !self.is_inside {
            return self.visits.clear();
        }
        self.take_visits(hart);
        let now = self.harts[hart].stack.thread();
        if now != thread {
            let (lane, number) = (self.harts[hart].lane, self.harts[hart].number);
            self.close_all(lane, AFTER);
            let lane = self.lane(Lane { hart: number, thread: now });
            let hart = &mut self.harts[hart];
            hart.lane = lane;
            if hart.pending == Pending::Nothing {
                hart.pending = Pending::Turn;
            }
        }
    }

    fn take_visits(&mut self, hart: usize) {
        let visits = std::mem::take(&mut self.visits);
        for visit in &visits {
            let Hart { lane, began, .. } = self.harts[hart];
            self.harts[hart].began = self.count;
            if visit.own.instructions > 0 {
                self.visit(lane, visit, began);
            }
        }
        self.visits = visits;
        self.visits.clear();
    }

    /// There was a stay in a function, which began after so many instructions.
    fn visit(&mut self, lane: usize, visit: &Visit<'c>, began: u64) {
        let Grid { first_row, rows, .. } = self.grid;
        let depth = u32::try_from(visit.depth).unwrap_or(u32::MAX);
        self.chart.depths[lane] = self.chart.depths[lane].max(depth.saturating_add(1));
        // Deeper calls have ended.
        let keep = (depth.saturating_add(1)).saturating_sub(first_row) as usize;
        for row in (keep..self.rows[lane].open.len()).rev() {
            self.close(lane, row, began, 0);
        }
        self.rows[lane].open.truncate(keep);
        let Some(row) = depth.checked_sub(first_row).filter(|row| *row < rows) else { return };
        let row = row as usize;
        if self.rows[lane].open.len() <= row {
            self.rows[lane].open.resize(row + 1, None);
        }
        let address = visit.function.address.0;
        let is_same = |open: &Open, name: u32| open.name == name || open.address == address;
        let name = self.names.of(&visit.function);
        match self.rows[lane].open[row] {
            Some(open) if is_same(&open, name) && !visit.is_entry => {}
            _ => {
                self.close(lane, row, began, 0);
                self.rows[lane].open[row] = Some(Open { name, address, begin: began, flags: 0 });
            }
        }
    }

    fn close(&mut self, lane: usize, row: usize, end: u64, flags: u8) {
        let Some(open) = self.rows[lane].open.get_mut(row).and_then(Option::take) else { return };
        if end <= open.begin {
            return;
        }
        let place = self.grid.first_row + row as u32;
        let call = Call {
            lane: lane as u32,
            row: place,
            begin: open.begin,
            end,
            name: open.name,
            flags: open.flags | flags,
        };
        match self.grid.shows(call.begin, call.end) {
            true => self.chart.calls.push(call),
            false => self.add(lane, row, &call),
        }
    }

    fn close_all(&mut self, lane: usize, flags: u8) {
        let Some(rows) = self.rows.get(lane) else { return };
        for row in (0..rows.open.len()).rev() {
            self.close(lane, row, self.count, flags);
        }
        self.rows[lane].open.clear();
    }

    /// A call that is too small is added to its column.
    fn add(&mut self, lane: usize, row: usize, call: &Call) {
        let Call { begin, end, name, .. } = *call;
        let column = self.grid.column(begin.max(self.grid.from));
        let cells = &mut self.rows[lane].cells;
        if cells.len() <= row {
            cells.resize_with(row + 1, Cell::default);
        }
        if cells[row].column != column {
            self.end_cell(lane, row);
        }
        let cell = &mut self.rows[lane].cells[row];
        cell.column = column;
        let instructions = end - begin.max(self.grid.from).min(end);
        let known = cell.parts.iter().position(|part| part.0 == name);
        match known {
            None if cell.parts.len() < MOST_PARTS => cell.parts.push((name, instructions, 1)),
            // What is not among the first is no large part of so many.
            place => {
                let part = &mut cell.parts[place.unwrap_or(0)];
                (part.1, part.2) = (part.1 + instructions, part.2 + 1);
            }
        }
    }

    fn end_cell(&mut self, lane: usize, row: usize) {
        let cell = std::mem::take(&mut self.rows[lane].cells[row]);
        let Some(&(name, ..)) = cell.parts.iter().max_by_key(|part| part.1) else { return };
        self.chart.sums.push(Sum {
            lane: lane as u32,
            row: self.grid.first_row + row as u32,
            begin: self.grid.begin(cell.column),
            end: self.grid.begin(cell.column + 1),
            name,
            instructions: cell.parts.iter().map(|part| part.1).sum(),
            calls: cell.parts.iter().map(|part| part.2).sum(),
        });
    }

    fn range(&mut self, number: u16, range: &Range) {
        let hart = self.hart(number);
        self.push(hart, &Event::Range(*range));
        let before = self.count;
        self.count += u64::from(range.instructions);
        if !self.is_inside {
            return;
        }
        let Hart { lane, pending, .. } = self.harts[hart];
        self.chart.instructions[lane] += u64::from(range.instructions);
        if pending != Pending::Nothing {
            self.harts[hart].pending = Pending::Nothing;
            self.resume_calls(hart, lane, pending, before);
        }
    }

    /// With the first instruction it is known which calls are under way around it.
    fn resume_calls(&mut self, hart: usize, lane: usize, pending: Pending, before: u64) {
        let Grid { first_row, rows, .. } = self.grid;
        let Self { harts, names, chart, .. } = self;
        let stack = &harts[hart].stack;
        let mut open = Vec::new();
        let mut depth = stack.forgotten();
        for call in stack.under_way() {
            let UnderWay { function, entered, .. } = call;
            if entered >= before {
                break;
            }
            let row = depth.saturating_sub(first_row as usize);
            if depth >= first_row as usize && row < rows as usize {
                let begin = if pending == Pending::Window { entered } else { before };
                open.resize(row, None);
                open.push(Some(Open {
                    name: names.of(&function),
                    address: function.address.0,
                    begin,
                    flags: BEFORE,
                }));
            }
            depth += 1;
        }
        chart.depths[lane] = chart.depths[lane].max(u32::try_from(depth).unwrap_or(u32::MAX));
        self.rows[lane].open = open;
    }

    fn mark(&mut self, hart: usize, kind: &'static str, words: impl FnOnce() -> String) {
        let lane = self.harts[hart].lane as u32;
        if self.chart.marks.len() >= MOST_MARKS {
            self.chart.more_marks += 1;
            return;
        }
        self.chart.marks.push(Mark { lane, at: self.count, kind, words: shown(&words()) });
    }

    fn event(&mut self, number: u16, event: &Event) {
        let hart = self.hart(number);
        let thread = self.harts[hart].stack.thread();
        self.push(hart, event);
        let kind = match event {
            Event::Exception { .. } => "exception",
            event if event.is_loss() => "gap",
            Event::TraceOn(_) => "tracing",
            Event::UnitEvents(_) | Event::Trigger => "event",
            Event::Context(..) if self.harts[hart].stack.thread() != thread => "context",
            _ => "",
        };
        if let Event::Software(written) = event {
            let mut found = Vec::new();
            self.messages.push(number, written, self.time, 0, &mut |message| {
                found.extend(message.text().map(str::to_owned));
            });
            if self.is_inside {
                found.into_iter().for_each(|text| self.mark(hart, "message", || text));
            }
        }
        if !self.is_inside {
            return;
        }
        if !kind.is_empty() {
            self.mark(hart, kind, || {
                let mut words = event.name().to_owned() + " ";
                // Memory takes everything.
                let _ = write_text(event, &mut words);
                words
            });
        }
        if let &Event::Timestamp { value, .. } = event
            && value != 0
        {
            self.time = self.time.max(Some(value));
            let column = self.grid.column(self.count);
            if self
                .chart
                .times
                .last()
                .is_none_or(|known| self.grid.column(known.0) != column && known.1 <= value)
            {
                self.chart.times.push((self.count, value));
            }
        }
    }

    fn take(&mut self, item: &Item<'_, Event>) {
        match &item.value {
            Event::Range(range) if range.instructions > 0 => self.range(item.sub_source, range),
            Event::Range(_) => {}
            event => self.event(item.sub_source, event),
        }
    }
}

impl InWindow for Charter<'_, '_> {
    fn item(&mut self, item: Item<'_, Event>) {
        self.take(&item);
    }

    fn before(&mut self, item: Item<'_, Event>) {
        self.take(&item);
    }

    fn needs_all(&self) -> bool {
        true
    }

    fn needs_calls(&self) -> bool {
        true
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        self.count = known.instructions;
        for number in known.harts() {
            let hart = self.hart(number);
            known.resume(number, &mut self.harts[hart].stack);
        }
    }

    fn begin(&mut self, place: &Place) {
        (self.count, self.is_inside, self.time) = (place.instructions, true, place.time);
        self.chart.times.extend(place.time.map(|time| (place.instructions, time)));
        for hart in 0..self.harts.len() {
            let Hart { number, stack, .. } = &mut self.harts[hart];
            stack.flush(&mut |_| {});
            let lane = Lane { hart: *number, thread: stack.thread() };
            let lane = self.lane(lane);
            let hart = &mut self.harts[hart];
            (hart.lane, hart.began, hart.pending) = (lane, place.instructions, Pending::Window);
        }
    }

    fn enter(&mut self, span: TimeSpan) {
        self.code.enter(span);
        self.harts.iter_mut().for_each(|hart| hart.stack.set_code(self.code));
    }
}
