//! What is looked at, and the answers about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::Duration;

use backsight::Capture;
use backsight::decode::{Decode, Execution};
use backsight::image::SourceFolders;
use backsight::moments::{Index, Moment, Window};
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::chart::{Chart, Charter, Grid};
use crate::names::{Names, shown};
use crate::overview::{lane_value, since};
use crate::recording::Recording;
use crate::running::{Running, Ticket};
use crate::samples::{Kept, Sampler, places};
use crate::walk::Walker;
use crate::windows::Counted;

/// Instructions of a window that are decoded for a picture: those of longer ones are looked at in places.
const EXACT: u64 = 1 << 20;

/// Without an index, decoding begins at the beginning: no farther than this from there.
const WITHOUT_INDEX: u64 = 1 << 25;

/// Columns, rows and places of a chart.
const MOST_COLUMNS: u32 = 8_192;
const MOST_ROWS: u32 = 512;
const MOST_PLACES: usize = 512;

/// How long a question may take.
const MOST_TIME: Duration = Duration::from_secs(20);
const MOST_TIME_OF_PROFILES: Duration = Duration::from_secs(600);

/// What a view has besides captures.
#[derive(Debug, Default)]
pub struct ViewOptions {
    /// Where source may be read that debug information names: none is shown without.
    pub sources: SourceFolders,
    /// The words that open each recording in gdb, without the moment.
    pub gdb: Vec<Vec<String>>,
    /// Cores to use; 0 is as many as there are.
    pub threads: usize,
}

/// Captures that are looked at.
#[derive(Default)]
pub struct View<'c> {
    pub(crate) recordings: Vec<Recording<'c>>,
    pub(crate) walkers: Vec<Walker>,
    pub(crate) sources: Arc<SourceFolders>,
    pub(crate) gdb: Vec<Vec<String>>,
    pub(crate) counted: Counted,
    names: Names,
    kept: Kept,
    running: Running,
    threads: usize,
    stop: Arc<AtomicBool>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// In words.
    Because(String),
    /// A newer question took its place, or it took too long.
    GivenUp,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

impl From<&str> for Failed {
    fn from(why: &str) -> Self {
        Self::Because(why.to_owned())
    }
}

/// What a page is given.
#[derive(Debug)]
pub struct Answer {
    /// The status, as in HTTP.
    pub status: u16,
    /// What kind of text it is.
    pub kind: &'static str,
    /// The name of a file that it is to be saved as.
    pub file: Option<String>,
    /// The text.
    pub body: Vec<u8>,
}

impl Answer {
    fn json(status: u16, value: &Value) -> Self {
        Self { status, kind: "application/json", file: None, body: value.to_string().into_bytes() }
    }

    pub(crate) fn file(name: &str, kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, kind, file: Some(name.to_owned()), body }
    }
}

impl<'c> View<'c> {
    /// Without a capture.
    pub fn new(options: ViewOptions) -> Self {
        let ViewOptions { sources, gdb, threads } = options;
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { available } else { threads };
        Self { sources: sources.into(), gdb, threads, ..Self::default() }
    }

    /// With a capture, and its index if that is there.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn add(
        &mut self,
        name: &str,
        capture: &'c Capture,
        decode: Decode<'c, Execution>,
        index: Option<Arc<Index>>,
    ) -> backsight::Result<()> {
        self.recordings.push(Recording::new(name.to_owned(), capture, decode, index)?);
        self.walkers.push(Walker::default());
        Ok(())
    }

    /// Is there a source that traces execution?
    pub fn has_sources(&self) -> bool {
        self.recordings.iter().any(|recording| !recording.sources.is_empty())
    }

    /// Makes indexes, and walks, on threads of their own until the view [ends](View::end).
    pub fn start<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        scope.spawn(|| {
            for recording in &self.recordings {
                recording.make_index(self.threads, &self.stop);
            }
        });
        for (recording, walker) in self.recordings.iter().zip(&self.walkers) {
            scope.spawn(|| walker.run(recording, self.threads));
        }
    }

    /// Waits until all indexes are there, or will not be.
    pub fn wait(&self) {
        self.recordings.iter().for_each(|recording| {
            recording.wait();
        });
    }

    /// Ends all that is under way.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.running.give_up();
        self.recordings.iter().for_each(Recording::end);
        self.walkers.iter().for_each(Walker::end);
    }

    /// Gives up what takes too long.
    pub(crate) fn give_up_late(&self) {
        self.running.give_up_late();
    }

    pub(crate) const fn threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn recording(&self, number: usize) -> Result<&Recording<'c>, Failed> {
        self.recordings.get(number).ok_or_else(|| "there is no such recording".into())
    }

    /// How far indexes are, as JSON.
    pub(crate) fn progress_text(&self) -> String {
        self.progress().to_string()
    }

    /// Answers a question: what it is about, and names and values.
    pub fn answer(&self, question: &str, values: &[(String, String)]) -> Answer {
        let ask = Ask(values);
        let most = match question {
            "profile" | "compare" | "export" | "function" => MOST_TIME_OF_PROFILES,
            _ => MOST_TIME,
        };
        let ticket = self.running.begin(ask.text("slot").unwrap_or_default(), most);
        let outcome = match question {
            "overview" => Ok(self.overview()),
            "progress" => Ok(self.progress()),
            "calls" => self.calls(ask, &ticket),
            "counters" => self.counters(ask),
            "profile" => self.profile(ask, &ticket),
            "function" => self.function(ask, &ticket),
            "compare" => self.compare(ask, &ticket),
            "at" => self.at(ask),
            "code" => self.code(ask),
            "find" => self.find(ask, &ticket),
            "functions" => self.functions(ask),
            "export" => match self.export(ask, &ticket) {
                Ok(answer) => return answer,
                Err(failed) => Err(failed),
            },
            _ => return Answer::json(404, &json!({ "error": "there is no such question" })),
        };
        match outcome {
            Ok(value) => Answer::json(200, &value),
            Err(Failed::GivenUp) => {
                Answer::json(503, &json!({ "error": "it was given up", "given_up": true }))
            }
            Err(Failed::Because(_)) if ticket.is_given_up() => {
                Answer::json(503, &json!({ "error": "it was given up", "given_up": true }))
            }
            Err(Failed::Because(why)) => Answer::json(400, &json!({ "error": shown(&why) })),
        }
    }

    /// The calls of a window.
    fn calls(&self, ask: Ask<'_>, ticket: &Ticket<'_>) -> Result<Value, Failed> {
        let recording = self.recording(ask.get("recording")?)?;
        let number: usize = ask.get("source")?;
        let source = recording.sources.get(number).ok_or("there is no such source")?;
        let known = recording.known(number);
        let end = known.map_or(u64::MAX, |known| known.instructions);
        let grid = Grid {
            from: ask.get::<u64>("from")?.min(end),
            to: ask.get::<u64>("to")?.min(end),
            columns: ask.or("columns", 1_000_u32)?.clamp(1, MOST_COLUMNS),
            first_row: ask.or("first", 0_u32)?,
            rows: ask.or("rows", 64_u32)?.clamp(1, MOST_ROWS),
        };
        if grid.from >= grid.to {
            return Ok(self.chart_value(recording, number, "nothing", &Chart::default(), 0, &grid));
        }
        let decode = recording.decode.clone().stop_on(Arc::clone(&ticket.flag)).positions(false);
        let (moments, code) = (recording.moments(), recording.capture.code()?.seen_by(source));
        let points = known.map_or(&[][..], |known| &known.points);
        let most = ask.or("places", 128_usize)?.clamp(1, MOST_PLACES);
        let chosen = if grid.length() > EXACT { places(points, &grid, most) } else { Vec::new() };
        let (kind, chart, looked_at) = if !chosen.is_empty() {
            let (names, kept, threads) = (&self.names, &self.kept, self.threads);
            let number = (ask.get("recording")?, number);
            let (moments, decode, stop) = (&moments, &decode, &*ticket.flag);
            let sampler = Sampler { moments, decode, code, source, number, names, kept, threads, stop };
            let (chart, looked_at) = sampler.chart(&grid, &chosen)?;
            ("places", chart, looked_at)
        } else if known.is_none() && grid.to > WITHOUT_INDEX {
            ("waiting", Chart::default(), 0)
        } else {
            let mut charter = Charter::new(code, grid, &self.names);
            let window = Window {
                from: Some(Moment::Instruction(grid.from)).filter(|_| grid.from > 0),
                to: Some(Moment::Instruction(grid.to)).filter(|_| grid.to < end),
            };
            let found = moments.take(decode, source, window, &mut charter)?;
            let looked_at = found.places.map_or(0, |(from, to)| to.instructions - from.instructions);
            ("all", charter.finish(), looked_at)
        };
        if ticket.is_given_up() {
            return Err(Failed::GivenUp);
        }
        Ok(self.chart_value(recording, number, kind, &chart, looked_at, &grid))
    }

    fn chart_value(
        &self,
        recording: &Recording<'_>,
        source: usize,
        kind: &str,
        chart: &Chart,
        looked_at: u64,
        grid: &Grid,
    ) -> Value {
        let lanes = chart.lanes.iter().zip(&chart.depths).zip(&chart.instructions).map(
            |((lane, depth), instructions)| {
                let mut value = lane_value(recording, source, *lane);
                value["rows"] = (*depth).into();
                value["instructions"] = (*instructions).into();
                value
            },
        );
        let calls = chart
            .calls
            .iter()
            .map(|call| json!([call.lane, call.row, call.begin, call.end, call.name, call.flags]));
        let sums = chart
            .sums
            .iter()
            .map(|sum| json!([sum.lane, sum.row, sum.begin, sum.end, sum.name, sum.instructions, sum.calls]));
        let marks = chart.marks.iter().map(|mark| json!([mark.lane, mark.at, mark.kind, mark.words]));
        let names = chart.calls.iter().map(|call| call.name).chain(chart.sums.iter().map(|sum| sum.name));
        json!({
            "kind": kind, "from": grid.from, "to": grid.to, "looked_at": looked_at, "lanes": lanes.collect::<Vec<_>>(),
            "calls": calls.collect::<Vec<_>>(), "sums": sums.collect::<Vec<_>>(), "marks": marks.collect::<Vec<_>>(),
            "more_marks": chart.more_marks, "times": since(recording, &chart.times), "names": self.names.of(names),
        })
    }
}
