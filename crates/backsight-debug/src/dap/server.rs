//! What requests ask of a walk.
//!
//! Whatever comes in, the walk stays where it is unless a request is whole and says otherwise. What is not known, or makes no sense, is
//! answered with an error in words.

use std::io::{self, Write};

use backsight::core::Printable;
use backsight::image::SourceFolders;
use backsight::moments::Moment;
use backsight::{Error, Result};
use serde_json::{Value, json};

use super::breakpoints::Breakpoints;
use super::disassembly::Listings;
use super::message::{Request, Talk, capabilities};
use super::motion;
use super::sources::Sources;
use crate::console::{Console, here, words};
use crate::motion::Motion;
use crate::replay::{At, Direction, Replay, Stopped, Stops, ThreadId};

/// Places to go to that an editor may have been told of.
const MOST_TARGETS: usize = 1 << 12;

/// What can be said in the console besides.
const MORE_HELP: &str = "\
reverse-step           back to the line that was executed before this one, into functions
reverse-next           back to the line that was executed before this one, over calls
reverse-finish         back to the call of this function
";

/// How an editor is served.
#[derive(Debug, Default)]
pub struct Settings {
    /// Where source text is: what debug information names is looked up beneath these folders, and nowhere else.
    pub sources: SourceFolders,
}

/// What an editor says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// The number of the first line, and that of the first column.
    pub first_line: i64,
    pub first_column: i64,
}

impl Default for Client {
    fn default() -> Self {
        Self { first_line: 1, first_column: 1 }
    }
}

impl Client {
    /// What an `initialize` says.
    pub fn of(request: &Request) -> Self {
        let first = |name| match request.arguments.get(name).and_then(Value::as_bool) {
            Some(false) => 0,
            _ => 1,
        };
        Self { first_line: first("linesStartAt1"), first_column: first("columnsStartAt1") }
    }

    /// A line or column as the editor counts them.
    pub fn line(self, line: u32) -> i64 {
        i64::from(line).max(1) - 1 + self.first_line
    }

    pub fn column(self, column: u32) -> i64 {
        i64::from(column).max(1) - 1 + self.first_column
    }

    /// A line as debug information counts them.
    pub fn own_line(self, line: i64) -> Option<u32> {
        u32::try_from(line.checked_sub(self.first_line)?.checked_add(1)?).ok()
    }
}

/// A walk that an editor asks of.
pub struct Server<'c, 'r> {
    pub(super) replay: &'r mut Replay<'c>,
    pub(super) client: Client,
    pub(super) console: Console,
    pub(super) breakpoints: Breakpoints,
    pub(super) sources: Sources,
    pub(super) listings: Listings,
    /// Places that were offered to go to.
    targets: Vec<At>,
    /// Why it stopped the last time, in words.
    why: String,
    is_exception: bool,
}

/// Why a request is not fulfilled.
pub(super) fn refusal(why: impl Into<String>) -> Error {
    Error::Absent(why.into())
}

impl<'c, 'r> Server<'c, 'r> {
    /// Serves a walk from where it stands.
    pub fn new(replay: &'r mut Replay<'c>, settings: Settings) -> Self {
        Self::over(replay, settings, Client::default())
    }

    pub(super) fn over(replay: &'r mut Replay<'c>, settings: Settings, client: Client) -> Self {
        let console = Console { gaps: true, exceptions: false, more_help: MORE_HELP };
        let (breakpoints, listings, targets, why) = Default::default();
        let sources = Sources::new(settings.sources);
        Self { replay, client, console, breakpoints, sources, listings, targets, why, is_exception: false }
    }

    /// Takes the body of a message, and writes what is answered. False once the editor wants no more.
    ///
    /// # Errors
    /// If nothing can be written any more.
    pub fn take(&mut self, body: &[u8], out: impl Write) -> io::Result<bool> {
        let mut talk = Talk::new(out);
        match Request::parse(body) {
            Ok(request) => self.request(&request, &mut talk),
            Err(why) => talk.say("stderr", &format!("{why}: it was passed over\n")).map(|()| true),
        }
    }

    /// Answers a request. False once the editor wants no more.
    pub(super) fn request(&mut self, request: &Request, talk: &mut Talk<'_>) -> io::Result<bool> {
        match &*request.command {
            "disconnect" | "terminate" => {
                talk.end(Some(request))?;
                return Ok(false);
            }
            "configurationDone" => {
                talk.answer(request, Value::Null)?;
                self.stand("entry", "where the walk begins", talk)?;
            }
            "continue" | "reverseContinue" | "next" | "stepIn" | "stepOut" | "stepBack" => {
                match motion::of_request(request) {
                    Ok((thread, motion)) => match self.thread_of(thread) {
                        Ok(thread) => {
                            talk.answer(request, json!({"allThreadsContinued": true}))?;
                            self.go(thread, motion, talk)?;
                        }
                        Err(error) => talk.refuse(request, &error.to_string(), false)?,
                    },
                    Err(why) => talk.refuse(request, &why, false)?,
                }
            }
            // Where nothing runs, it stands already.
            "pause" | "cancel" => talk.answer(request, Value::Null)?,
            "goto" => {
                let target = request.number("targetId").and_then(|number| usize::try_from(number).ok());
                match target.and_then(|number| self.targets.get(number)).copied() {
                    Some(target) => match self.replay.go_to_place(target) {
                        Ok(()) => {
                            talk.answer(request, Value::Null)?;
                            self.stand("goto", "where it was told to go", talk)?;
                        }
                        Err(error) => talk.refuse(request, &error.to_string(), true)?,
                    },
                    None => talk.refuse(request, "no such place was offered", false)?,
                }
            }
            "evaluate" => self.evaluate(request, talk)?,
            _ => match self.ask(request) {
                Some(Ok(body)) => talk.answer(request, body)?,
                Some(Err(error)) => talk.refuse(request, &error.to_string(), false)?,
                None => {
                    let command = Printable(&request.command);
                    talk.refuse(
                        request,
                        &format!("`{command}` is not known, or not to be had of a trace"),
                        false,
                    )?;
                }
            },
        }
        Ok(true)
    }

    /// Requests that move nothing.
    fn ask(&mut self, request: &Request) -> Option<Result<Value>> {
        Some(match &*request.command {
            "initialize" => {
                self.client = Client::of(request);
                Ok(capabilities())
            }
            "launch" | "attach" => Err(refusal("a capture has been launched already")),
            "threads" => Ok(self.threads()),
            "stackTrace" => self.stack_trace(request),
            "scopes" => self.scopes(request),
            "variables" => self.variables(request),
            "setBreakpoints" => self.set_line_breakpoints(request),
            "setFunctionBreakpoints" => self.set_function_breakpoints(request),
            "setInstructionBreakpoints" => self.set_instruction_breakpoints(request),
            "setExceptionBreakpoints" => Ok(self.set_exception_breakpoints(request)),
            "gotoTargets" => self.goto_targets(request),
            "disassemble" => self.disassemble(request),
            "readMemory" => self.read_memory(request),
            "source" => self.source(request),
            "exceptionInfo" => Ok(self.exception_info()),
            "modules" => self.modules(request),
            "setVariable" | "setExpression" | "writeMemory" => Err(refusal("the past is not to be changed")),
            _ => return None,
        })
    }

    /// The thread of a number that the editor was told.
    pub(super) fn thread_of(&self, number: Option<i64>) -> Result<ThreadId> {
        let index = number.and_then(|number| usize::try_from(number.checked_sub(1)?).ok());
        match index.filter(|index| *index < self.replay.threads().len()) {
            Some(index) => Ok(ThreadId(index)),
            None => Err(refusal("there is no such thread")),
        }
    }

    /// Where it stops besides.
    fn stops(&self) -> Stops {
        Stops {
            breakpoints: self.breakpoints.all(),
            gaps: self.console.gaps,
            exceptions: self.console.exceptions,
            ..Stops::default()
        }
    }

    /// Moves, and says where it came to.
    fn go(&mut self, thread: ThreadId, motion: Motion, talk: &mut Talk<'_>) -> io::Result<()> {
        let from = self.replay.place(thread).unwrap_or_default().filter(|_| motion.is_instruction());
        let is_back = motion.direction() == Direction::Backwards;
        let stops = self.stops();
        let outcome = motion.make(self.replay, thread, &stops).and_then(|stopped| {
            let passed = words::of_stop(self.replay, from, stopped, is_back)?;
            Ok((stopped, passed))
        });
        match outcome {
            Ok((stopped, passed)) => {
                talk.say("console", &passed)?;
                self.stop(stopped, passed.trim_end(), talk)
            }
            Err(error) => {
                talk.say("stderr", &format!("{error}\n"))?;
                self.stand("pause", &error.to_string(), talk)
            }
        }
    }

    /// Says why it stopped, and where.
    fn stop(&mut self, stopped: Stopped, passed: &str, talk: &mut Talk<'_>) -> io::Result<()> {
        let (reason, why) = match stopped {
            Stopped::Step => ("step", "after a step"),
            Stopped::Breakpoint(_) => ("breakpoint", "at a breakpoint"),
            Stopped::Touched(_) => ("data breakpoint", "where watched memory was touched"),
            Stopped::Gap => ("exception", "where something is missing in the trace"),
            Stopped::Exception => ("exception", "where an exception was taken"),
            Stopped::Beginning => ("beginning of the trace", "at the beginning of the trace"),
            Stopped::End => ("end of the trace", "at the end of the trace"),
            Stopped::Interrupted => ("pause", "where it was when it was interrupted"),
        };
        self.why = if passed.is_empty() { why.to_owned() } else { passed.to_owned() };
        self.is_exception = reason == "exception";
        let hit = match stopped {
            Stopped::Breakpoint(address) => self.breakpoints.at(address),
            _ => Vec::new(),
        };
        let reason = hit.first().map_or(reason, |(_, reason)| reason);
        let ids: Vec<u64> = hit.iter().map(|(id, _)| *id).collect();
        self.tell(reason, why, &ids, talk)
    }

    /// Says where it stands, without a move.
    fn stand(&mut self, reason: &str, why: &str, talk: &mut Talk<'_>) -> io::Result<()> {
        self.why = why.to_owned();
        self.is_exception = false;
        self.tell(reason, why, &[], talk)
    }

    fn tell(&mut self, reason: &str, why: &str, ids: &[u64], talk: &mut Talk<'_>) -> io::Result<()> {
        let moment = self.moment().unwrap_or_default();
        let text = here(self.replay).and_then(|at| words::of_place(self.replay, at)).unwrap_or_default();
        talk.event("backsight.moment", moment)?;
        talk.event(
            "stopped",
            json!({
                "reason": reason, "description": format!("Stopped {why}"), "text": text.trim_end(),
                "threadId": self.replay.current().0 + 1, "allThreadsStopped": true, "hitBreakpointIds": ids,
            }),
        )
    }

    /// The moment, for who wants to show it.
    fn moment(&mut self) -> Result<Value> {
        let at = here(self.replay)?;
        let what = self.replay.what(at)?;
        let time = self.replay.time(at)?;
        Ok(json!({
            "moment": Moment::Instruction(at.instruction).to_string(),
            "instruction": at.instruction,
            "instructions": self.replay.instructions(at.source),
            "timestamp": time,
            "threadId": self.replay.current().0 + 1,
            "address": what.map(|what| what.address.to_string()),
            "place": words::of_address(self.replay, at)?,
        }))
    }

    /// What a user wants to know in words, or a name beneath the pointer.
    fn evaluate(&mut self, request: &Request, talk: &mut Talk<'_>) -> io::Result<()> {
        let expression = request.text("expression").unwrap_or_default().trim().to_owned();
        if request.text("context").is_some_and(|context| context != "repl") || expression.starts_with('$') {
            return match self.value(request, &expression) {
                Ok(Some(body)) => talk.answer(request, body),
                Ok(None) => {
                    let why = "not traced: `$pc`, `$moment`, `$calls` and registers whose values are known can be asked for";
                    talk.refuse(request, why, false)
                }
                Err(error) => talk.refuse(request, &error.to_string(), false),
            };
        }
        if let Some(motion) = motion::named(&expression) {
            talk.answer(request, json!({"result": "", "variablesReference": 0}))?;
            return self.go(self.replay.current(), motion, talk);
        }
        let before = here(self.replay).ok();
        let text = self.console.answer(self.replay, &expression);
        let text = text.trim_end();
        talk.answer(request, json!({"result": text, "variablesReference": 0}))?;
        if here(self.replay).ok() != before {
            self.stand("goto", "where it was told to go", talk)?;
        }
        Ok(())
    }

    /// The times at which a line is executed around here.
    fn goto_targets(&mut self, request: &Request) -> Result<Value> {
        let current = self.replay.current();
        let at = here(self.replay)?;
        let line = self.asked_line(request)?;
        let found = self.line_addresses(request, line)?;
        let mut stops = Stops::default();
        for address in found.addresses {
            stops.breakpoints.insert(self.replay.breakpoint(at, address)?);
        }
        let mut targets = Vec::new();
        let ways =
            [(Direction::Backwards, "the last time before here"), (Direction::Forwards, "the next time")];
        for (direction, when) in ways.into_iter().filter(|_| !stops.breakpoints.is_empty()) {
            self.replay.go_to_place(at)?;
            let stopped = self.replay.run(current, direction, &stops);
            if let Stopped::Breakpoint(address) = stopped? {
                targets.push((here(self.replay)?, when, address));
            }
        }
        self.replay.go_to_place(at)?;
        if self.targets.len() + targets.len() > MOST_TARGETS {
            self.targets.clear();
        }
        let mut list = Vec::new();
        for (target, when, address) in targets {
            let moment = Moment::Instruction(target.instruction);
            list.push(json!({
                "id": self.targets.len(), "label": format!("{moment}: {when}"), "line": self.client.line(found.line),
                "instructionPointerReference": format!("{address:#x}"),
            }));
            self.targets.push(target);
        }
        match list.is_empty() {
            false => Ok(json!({"targets": list})),
            true => Err(refusal("this line was not executed, before here or after")),
        }
    }

    fn exception_info(&self) -> Value {
        let id = if self.is_exception { "something was reported here" } else { "no exception" };
        json!({"exceptionId": id, "description": self.why, "breakMode": "always"})
    }
}
