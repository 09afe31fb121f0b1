//! Where execution is at a moment, with its stack of calls and its code; and steps from there.
//!
//! One thread has the [`Replay`] of a recording, which keeps what is near decoded. Requests come to it one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use backsight::core::describe::write_text;
use backsight::core::{Address, Describe as _};
use backsight::image::Disassembler;
use backsight_debug::code_text::CodeText;
use backsight_debug::motion::{Calls, Motion};
use backsight_debug::replay::{At, Call, Direction, Replay, Scheduler, Stopped, Stops};
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::names::shown;
use crate::recording::Recording;
use crate::view::{Failed, View};

/// Frames of a stack that are shown: the innermost.
const MOST_FRAMES: usize = 256;

/// Instructions of a function, and lines of source around it, that are shown.
const MOST_INSTRUCTIONS: usize = 4_096;
const MOST_LINES: usize = 5_000;
const MOST_COLUMNS: usize = 500;
const AROUND: u32 = 12;

/// Requests that wait, at most.
const MOST_WAITING: usize = 32;

type Job = Box<dyn FnOnce(Result<&mut Replay<'_>, String>) + Send>;

/// The way to the thread that walks through a recording.
pub(crate) struct Walker {
    sender: Mutex<Option<SyncSender<Job>>>,
    receiver: Mutex<Option<Receiver<Job>>>,
}

impl Default for Walker {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(MOST_WAITING);
        Self { sender: Mutex::new(Some(sender)), receiver: Mutex::new(Some(receiver)) }
    }
}

impl Walker {
    /// Walks, until nobody asks any more.
    pub fn run(&self, recording: &Recording<'_>, threads: usize) {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(receiver) = receiver else { return };
        let moments =
            if recording.wait() { Ok(recording.moments()) } else { Err("there is no index".to_owned()) };
        let mut replay = moments.and_then(|moments| {
            Replay::new(recording.capture, &moments, &recording.decode).map_err(|error| error.to_string())
        });
        if let Ok(replay) = &mut replay {
            replay.set_scheduler(Scheduler::Alone);
            replay.set_cores(threads);
        }
        for job in receiver {
            job(replay.as_mut().map_err(|why| why.clone()));
        }
    }

    /// Nobody asks any more.
    pub fn end(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn ask(
        &self,
        question: impl FnOnce(&mut Replay<'_>) -> Result<Value, Failed> + Send + 'static,
    ) -> Result<Value, Failed> {
        let (answer, receiver) = sync_channel(1);
        let job: Job = Box::new(move |replay| {
            let outcome = replay.map_err(Failed::Because).and_then(question);
            // Whoever asked may have gone.
            let _ = answer.send(outcome);
        });
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = sender.is_some_and(|sender| sender.try_send(job).is_ok());
        if !sent {
            return Err("too much is asked for at once".into());
        }
        receiver.recv().unwrap_or(Err(Failed::GivenUp))
    }
}

/// What a step is called.
fn motion_of(action: &str, is_back: bool) -> Option<Motion> {
    let direction = if is_back { Direction::Backwards } else { Direction::Forwards };
    Some(match action {
        "instruction" => Motion::Instruction(direction, Calls::Into),
        "instruction-over" => Motion::Instruction(direction, Calls::Over),
        "into" => Motion::Line(direction, Calls::Into),
        "over" => Motion::Line(direction, Calls::Over),
        "out" => Motion::Out(direction),
        _ => return None,
    })
}

impl View<'_> {
    /// What is known of a moment, after a step from it if one is asked for.
    pub(crate) fn at(&self, ask: Ask<'_>) -> Result<Value, Failed> {
        let (number, wanted): (usize, u64) = (ask.get("recording")?, ask.get("instruction")?);
        let source: usize = ask.get("source")?;
        let recording = self.recording(number)?;
        let here = recording.sources.get(source).ok_or("there is no such source")?;
        let (buffer, id) = (here.buffer().to_owned(), here.id());
        let motion = match ask.text("step") {
            None => None,
            Some(action) => {
                Some(motion_of(action, ask.text("back").is_some()).ok_or("there is no such step")?)
            }
        };
        let mut value = self.walkers[number].ask(move |replay| {
            let track = replay.sources().position(|one| one.buffer() == buffer && one.id() == id);
            let track = track.ok_or("no instruction of this source is in the trace")?;
            replay.go_to_place(At { source: track, hart: 0, instruction: wanted })?;
            let mut words = "";
            if let Some(motion) = motion {
                let thread = replay.current();
                let stopped = motion.make(replay, thread, &Stops::default())?;
                words = words_of(stopped);
            }
            let mut value = describe(replay)?;
            value["source"] = source.into();
            value["stopped"] = words.into();
            Ok(value)
        })?;
        let time = value["time"].as_u64().map(|time| recording.since(time));
        value["time"] = time.into();
        Ok(value)
    }

    /// The code of the function at a moment, and its lines.
    pub(crate) fn code(&self, ask: Ask<'_>) -> Result<Value, Failed> {
        let (number, instruction): (usize, u64) = (ask.get("recording")?, ask.get("instruction")?);
        let source: usize = ask.get("source")?;
        let address = ask.text("address").map(|_| ask.get::<u64>("address")).transpose()?;
        let recording = self.recording(number)?;
        let here = recording.sources.get(source).ok_or("there is no such source")?;
        let (buffer, id) = (here.buffer().to_owned(), here.id());
        let sources = std::sync::Arc::clone(&self.sources);
        self.walkers[number].ask(move |replay| {
            let track = replay.sources().position(|one| one.buffer() == buffer && one.id() == id);
            let track = track.ok_or("no instruction of this source is in the trace")?;
            let at = At { source: track, hart: 0, instruction };
            let what = replay.what(at)?.ok_or("its address is not known")?;
            let view = CodeText { code: replay.code(at)?, space: what.space, isa: what.isa };
            Ok(listing(&view, address.unwrap_or(what.address.0), &sources))
        })
    }
}

fn words_of(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Gap => "something is missing in the trace here",
        Stopped::Beginning => "there is nothing before",
        Stopped::End => "there is nothing after",
        Stopped::Interrupted => "it was given up",
        _ => "",
    }
}

/// Where the walk stands.
fn describe(replay: &mut Replay<'_>) -> Result<Value, Failed> {
    let thread = replay.current();
    let at = replay.place(thread)?.ok_or("it is not known where that is")?;
    let what = replay.what(at)?.ok_or("its address is not known")?;
    let (calls, is_deeper) = replay.calls(at)?;
    let depth = replay.depth(at)?;
    let code = replay.code(at)?;
    let mut frames = Vec::new();
    for number in 0..calls.len().clamp(1, MOST_FRAMES) {
        let Some(address) = address_of(what.address, &calls, number) else { continue };
        let image = code.names_at(what.space, address);
        let symbol = image.symbolise(what.space, address);
        let row = image.source_row(what.space, address).filter(|row| row.line.line > 0);
        let module =
            image.module_at(what.space, address).map(|(module, _)| shown(&module.name().to_string_lossy()));
        frames.push(json!({
            "function": symbol.map_or_else(|| address.to_string(), |symbol| shown(symbol.name)),
            "start": symbol.map(|symbol| format!("{:#x}", symbol.start.0)), "offset": symbol.map(|symbol| symbol.offset),
            "address": format!("{:#x}", address.0), "module": module,
            "file": row.as_ref().map(|row| shown(&row.line.file)), "line": row.as_ref().map(|row| row.line.line),
            "is_handler": calls.get(number).is_some_and(|call| call.is_handler),
        }));
    }
    let events = replay.events(at, false)?;
    let events: Vec<_> = events
        .iter()
        .take(32)
        .map(|event| {
            let mut words = event.name().to_owned() + " ";
            // Memory takes everything.
            let _ = write_text(event, &mut words);
            shown(&words)
        })
        .collect();
    let name = replay.threads().get(thread.0).map(|thread| shown(&thread.name));
    Ok(json!({
        "instruction": at.instruction, "instructions": replay.instructions(at.source), "time": replay.time(at)?,
        "thread": name, "address": format!("{:#x}", what.address.0), "depth": depth,
        "frames": frames, "more_frames": calls.len().saturating_sub(MOST_FRAMES), "is_deeper": is_deeper, "events": events,
    }))
}

/// Where names and lines of a frame are looked up: in the call, and not behind it.
fn address_of(pc: Address, calls: &[Call], number: usize) -> Option<Address> {
    let Some(callee) = number.checked_sub(1).and_then(|callee| calls.get(callee)) else { return Some(pc) };
    match callee.return_address {
        Some(address) if callee.is_handler => Some(address),
        Some(address) => Some(Address(address.0.saturating_sub(1))),
        None => calls.get(number).map(|call| call.entered),
    }
}

/// The instructions of a function, and the lines of the file that most of them are from.
fn listing(view: &CodeText<'_>, address: u64, sources: &backsight::image::SourceFolders) -> Value {
    let mut addresses = view.addresses(address, MOST_INSTRUCTIONS);
    addresses.pop();
    let mut disassembler = Disassembler::default();
    let mut files: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut rows = Vec::new();
    for &place in &addresses {
        let text = view.text(&mut disassembler, place).map_or_else(|| "?".to_owned(), |found| found.0);
        let row = view.names(place).source_row(view.space, Address(place)).filter(|row| row.line.line > 0);
        let line = row.map(|row| (row.line.file, row.line.line));
        if let Some((file, line)) = &line {
            files.entry(file.clone()).or_default().insert(*line);
        }
        let (file, line) = line.unzip();
        rows.push(json!([format!("{place:#x}"), text, file.as_deref().map(shown), line]));
    }
    let main = files.iter().max_by_key(|(_, lines)| lines.len());
    let lines = main.and_then(|(file, lines)| {
        let text = sources.lines(file)?;
        let first = lines.first()?.saturating_sub(AROUND).max(1);
        let numbers = (first..=lines.last()?.saturating_add(AROUND)).take(MOST_LINES);
        let line = |number: u32| {
            let text: String = text.get(number as usize - 1)?.chars().take(MOST_COLUMNS).collect();
            Some(json!([number, text]))
        };
        Some(numbers.map_while(line).collect::<Vec<_>>())
    });
    let symbol = view.names(address).symbolise(view.space, Address(address));
    json!({
        "start": addresses.first().map(|start| format!("{start:#x}")), "name": symbol.map(|symbol| shown(symbol.name)),
        "instructions": rows, "file": main.map(|(file, _)| shown(file)), "lines": lines,
    })
}
