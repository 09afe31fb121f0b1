//! The options that choose a part of the execution by moments.

use backsight::decode::{Decode, Execution};
use backsight::moments::{Found, Moment, Moments, Place, Window};
use backsight::{Capture, Source};
use clap::Args;

use crate::failure::{Failure, Result};
use crate::output::{counted, say};

/// Instructions that are listed on each side of a moment.
const AROUND: u64 = 100;

/// Which part of the execution of each source is wanted.
#[derive(Args, Clone, Debug, Default)]
pub struct WindowArgs {
    /// From this moment on: #INSTRUCTION, start, end-INSTRUCTIONS, tTIMESTAMP, a time after the first timestamp as in 3.2s or 15ms, or
    /// @POSITION in the buffer; of each source by itself
    #[arg(long, value_name = "MOMENT", help_heading = "Window", conflicts_with_all = ["last", "around"])]
    from: Option<Moment>,

    /// Up to this moment
    #[arg(long, value_name = "MOMENT", help_heading = "Window", conflicts_with_all = ["last", "around"])]
    to: Option<Moment>,

    /// The last N instructions
    #[arg(long, value_name = "N", help_heading = "Window", conflicts_with = "around")]
    last: Option<u64>,

    /// The hundred instructions before this moment and the hundred after it
    #[arg(long, value_name = "MOMENT", help_heading = "Window")]
    around: Option<Moment>,
}

impl WindowArgs {
    /// Is only a part wanted?
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.last.is_some() || self.around.is_some()
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

    /// The window of a source; `None` if the source does not come to the moment that it is around.
    pub fn of<'c>(
        &self,
        moments: &Moments<'c>,
        decode: &Decode<'c, Execution>,
        source: &Source,
    ) -> Result<Option<Window>> {
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
            (None, None) => Ok(Some(Window { from: self.from, to: self.to })),
        }
    }

    /// What they ask for, in words.
    fn words(&self) -> String {
        let words = [
            self.from.map(|moment| format!("--from {moment}")),
            self.to.map(|moment| format!("--to {moment}")),
            self.last.map(|number| format!("--last {number}")),
            self.around.map(|moment| format!("--around {moment}")),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Windows of sources that were looked at.
#[derive(Default)]
pub struct Windows {
    instructions: u64,
    is_damaged: bool,
    has_begun: bool,
}

impl Windows {
    /// Takes note of what came of the window of a source, and says it.
    pub fn add(&mut self, source: &Source, found: &Found, quiet: bool) {
        let accounting = found.decoded.accounting;
        self.is_damaged |= accounting.bad > 0 || accounting.unsynchronised > 0;
        let Some((from, to)) = found.places else { return };
        let instructions = to.instructions - from.instructions;
        self.instructions += instructions;
        self.has_begun = true;
        if quiet {
            return;
        }
        let (name, id) = (source.name(), source.id());
        let listed = counted(instructions, "instruction");
        let read = counted(accounting.total(), "byte");
        let place = |place: &Place| match found.is_counted_from_end {
            true => Moment::BeforeEnd(found.end.saturating_sub(place.instructions)),
            false => Moment::Instruction(place.instructions),
        };
        say(format_args!("{name} ({id}): {listed} from {} to {}; {read} decoded", place(&from), place(&to)));
    }

    /// Was there anything? If not: what was asked for is not there.
    pub fn finish(&self, arguments: &WindowArgs, capture: &Capture) -> Result {
        match self.has_begun {
            true => Ok(()),
            false => {
                let words = arguments.words();
                Err(Failure::new(format!("{words}: no source of {} comes to that moment", capture.name())))
            }
        }
    }

    /// Is something wrong with the trace of the windows?
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }
}
