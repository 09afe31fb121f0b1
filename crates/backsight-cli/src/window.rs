//! The options that choose a part of the execution by moments.

use std::fmt;
use std::ops::Range;

use backsight::core::Accounting;
use backsight::decode::{Decode, Execution};
use backsight::moments::{Found, Moment, Moments, Place, Window};
use backsight::{Capture, Source};
use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::{counted, say};

/// Instructions that are listed on each side of a moment.
const AROUND: u64 = 100;

/// Between which moments of each source.
#[derive(Args, Clone, Debug, Default)]
pub struct SpanArgs {
    /// From this moment on: #INSTRUCTION, start, end-INSTRUCTIONS, tTIMESTAMP, a time after the first timestamp as in 3.2s or 15ms, or
    /// @POSITION in the buffer; of each source by itself
    #[arg(long, value_name = "MOMENT", help_heading = "Window", conflicts_with = "last")]
    pub from: Option<Moment>,

    /// Up to this moment
    #[arg(long, value_name = "MOMENT", help_heading = "Window", conflicts_with = "last")]
    pub to: Option<Moment>,
}

impl SpanArgs {
    /// The same for the library.
    pub fn window(&self) -> Window {
        Window { from: self.from, to: self.to }
    }
}

/// Which part of the execution of each source is wanted.
#[derive(Args, Clone, Debug, Default)]
pub struct WindowArgs {
    #[command(flatten)]
    pub span: SpanArgs,

    /// The last N instructions
    #[arg(long, value_name = "N", help_heading = "Window", conflicts_with = "around")]
    last: Option<u64>,

    /// The hundred instructions before this moment and the hundred after it
    #[arg(long, value_name = "MOMENT", help_heading = "Window", conflicts_with_all = ["from", "to"])]
    around: Option<Moment>,
}

impl WindowArgs {
    /// What lies between two moments.
    pub fn between(from: Option<Moment>, to: Option<Moment>) -> Self {
        Self { span: SpanArgs { from, to }, ..Self::default() }
    }

    /// Is only a part wanted?
    pub fn is_given(&self) -> bool {
        !self.span.window().is_everything() || self.last.is_some() || self.around.is_some()
    }

    /// Refuses a window beside something that has no room for it.
    pub fn refuse(&self, beside: &str) -> Result {
        match self.is_given() {
            true => Err(Failure::usage(format!(
                "{beside} takes the whole execution: leave out --from, --to, --last and --around"
            ))),
            false => Ok(()),
        }
    }

    /// The windows of the sources that a decode is for: of those that come to the moment that a window is around.
    pub fn of_sources<'c>(
        &self,
        moments: &Moments<'c>,
        decode: &Decode<'c, Execution>,
    ) -> Result<Vec<(Source, Window)>> {
        let mut windows = Vec::new();
        for source in decode.sources()? {
            let window = self.of(moments, decode, &source)?;
            windows.extend(window.map(|window| (source, window)));
        }
        Ok(windows)
    }

    /// The window of a source; `None` if the source does not come to the moment that it is around.
    pub fn of<'c>(
        &self,
        moments: &Moments<'c>,
        decode: &Decode<'c, Execution>,
        source: &Source,
    ) -> backsight::Result<Option<Window>> {
        let around = |moment: Moment| Window { from: moment.earlier(AROUND), to: moment.later(AROUND) };
        match (self.last, self.around) {
            (Some(number), _) => Ok(Some(Window::last(number))),
            (None, Some(moment)) => match around(moment) {
                window if window.from.is_some() => Ok(Some(window)),
                _ => {
                    let place = moments.place_of(decode.clone(), source, moment)?;
                    Ok(place.map(|place| around(Moment::Instruction(place.instructions))))
                }
            },
            (None, None) => Ok(Some(self.span.window())),
        }
    }

    /// What they ask for, in words.
    pub fn words(&self) -> String {
        let words = [
            self.span.from.map(|moment| format!("--from {moment}")),
            self.span.to.map(|moment| format!("--to {moment}")),
            self.last.map(|number| format!("--last {number}")),
            self.around.map(|moment| format!("--around {moment}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Windows of sources that were looked at.
#[derive(Default)]
pub struct Windows {
    is_damaged: bool,
    /// What each of them was, in words.
    lines: Vec<String>,
}

impl Windows {
    /// Takes note of what came of the window of a source, and says it.
    pub fn add(&mut self, source: &Source, found: &Found, quiet: bool) {
        let accounting = found.decoded;
        self.note_damage(&accounting);
        let Some((from, to)) = found.places else { return };
        let counted_instructions = counted(to.instructions - from.instructions, "instruction");
        let read = counted(accounting.total(), "byte");
        let place = |place: &Place| match found.is_counted_from_end {
            true => Moment::BeforeEnd(found.end.saturating_sub(place.instructions)),
            false => Moment::Instruction(place.instructions),
        };
        let what = format!("{counted_instructions} from {} to {}; {read} decoded", place(&from), place(&to));
        self.say(source, &what, quiet);
    }

    /// The same of packets; `of` says which they are.
    pub fn add_packets(
        &mut self,
        source: &Source,
        of: &str,
        (packets, accounting): (u64, Accounting),
        quiet: bool,
    ) {
        self.note_damage(&accounting);
        let (packets, read) = (counted(packets, "packet"), counted(accounting.total(), "byte"));
        self.say(source, &format!("{packets} {of}; {read} decoded"), quiet);
    }

    fn note_damage(&mut self, accounting: &Accounting) {
        self.is_damaged |= accounting.bad > 0 || accounting.unsynchronised > 0;
    }

    fn say(&mut self, source: &Source, what: &str, quiet: bool) {
        let line = format!("{} ({}): {what}", source.name(), source.id());
        if !quiet {
            say(&line);
        }
        self.lines.push(line);
    }

    /// Was there anything? If not: what was asked for is not there.
    pub fn finish(&self, arguments: &WindowArgs, capture: &Capture) -> Result {
        match self.lines.is_empty() {
            false => Ok(()),
            true => {
                let words = arguments.words();
                Err(Failure::new(format!("{words}: no source of {} comes to that moment", capture.name())))
            }
        }
    }

    /// What the windows were, a line each.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Is something wrong with the trace of the windows?
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }
}

/// Positions between which packets begin, in words.
pub struct Positions<'a>(pub &'a Range<u64>);

impl fmt::Display for Positions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.0;
        match *end {
            u64::MAX => write!(f, "from {} on", Moment::Position(*start)),
            end => write!(f, "from {} to {}", Moment::Position(*start), Moment::Position(end)),
        }
    }
}
