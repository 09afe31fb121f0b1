//! Registers and memory at a moment of a log.
//!
//! A Tarmac log says of every instruction what it wrote. What was in registers and memory before an instruction is found by reading
//! the log up to there.

use std::io::Read;

use backsight_core::{Address, Budget, Door};
use backsight_flow::Event;
use backsight_tarmac::{Decoder, Line};

use crate::decode::{Decode, Execution};
use crate::moments::{InWindow, Moment, Moments, Place, Window};
use crate::protocol::Configuration;
use crate::{Error, Item, Result, Source};

pub use backsight_tarmac::{Contents, Machine, Writer};

/// Registers and memory before an instruction.
#[derive(Clone, Debug)]
pub struct State {
    /// What is known.
    pub machine: Machine,
    /// The core that the instruction is of.
    pub core: u16,
    /// The instruction that is executed next; `None` at the end.
    pub next: Option<Address>,
    /// Where that is; `None` at the end.
    pub place: Option<Place>,
}

/// What was in registers and memory at a moment of a source.
///
/// # Errors
/// If the source is no log, can be read once only, or cannot be read.
pub fn state_at<'c>(
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    source: &Source,
    moment: Moment,
    budget: Option<u64>,
) -> Result<State> {
    let Configuration::Tarmac(config) = source.decoding() else {
        let why = "registers and memory are in Tarmac logs; of recordings with loads and stores, `backsight gdb` shows them";
        return Err(Error::Absent(format!("source {}: {why}", source.name())));
    };
    let capture = moments.capture();
    let Some(buffer) = capture.buffer(source.buffer()) else {
        return Err(Error::misuse(format!("buffer {}: there is none", source.buffer())));
    };
    let files = capture.description().buffers.iter().flat_map(|buffer| &buffer.files);
    if !files.into_iter().all(backsight_capture::FileRef::can_reopen) {
        let why = "it can be read once only: the state at a moment needs a file";
        return Err(Error::misuse(format!("buffer {}: {why}", buffer.name())));
    }
    let mut first = First(None);
    let window = Window { from: Some(moment), to: None };
    let found = moments.take(decode.clone(), source, window, &mut first)?;
    let place = first.0.as_ref().and(found.places).map(|(place, _)| place);
    let budget = Budget::of(Door::History, budget, buffer.size().unwrap_or(0));
    let mut machine = Machine::new(budget.limit());
    let mut decoder = Decoder::new(config);
    let mut reader = buffer.open()?;
    let (mut block, mut is_there) = (vec![0; 1 << 18], false);
    let mut last_core = 0;
    while !is_there {
        let count = match reader.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(backsight_capture::Error::io(buffer.name(), &error).into()),
        };
        decoder.feed(&block[..count], &mut |packet| {
            if let Line::Instruction(it) = packet.value.line {
                let is_next = |first: &Next| {
                    packet.offset >= first.offset
                        && packet.value.core == first.core
                        && it.address == first.address.0
                };
                is_there |= first.0.as_ref().is_some_and(is_next);
                last_core = packet.value.core;
            }
            if !is_there {
                machine.push(&packet);
            }
        });
    }
    let core = first.0.as_ref().map_or(last_core, |next| next.core);
    Ok(State { machine, core, next: first.0.map(|next| next.address), place })
}

/// The first instruction of a window.
struct Next {
    core: u16,
    address: Address,
    /// The range that it is in begins there in the log.
    offset: u64,
}

/// Wants the first instruction of a window, and nothing after it.
struct First(Option<Next>);

impl InWindow for First {
    fn item(&mut self, item: Item<'_, Event>) {
        if let Event::Range(range) = item.value
            && self.0.is_none()
        {
            let (core, offset) = (item.sub_source, item.offset);
            self.0 = Some(Next { core, address: range.start, offset });
        }
    }

    fn has_enough(&self) -> bool {
        self.0.is_some()
    }
}
