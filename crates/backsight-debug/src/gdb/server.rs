//! What packets ask, and what is answered.
//!
//! Whatever comes in, the walk stays where it is unless a packet is whole and says otherwise. What is not known of a request is answered
//! with an empty packet, as the protocol has it; what makes no sense with an error.

mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use backsight::core::Address;

use super::arch::{Arch, Entry, Holds};
use super::files::{self, Library, OpenFiles};
use super::packet::{MOST, Received, Receiver, parse_bytes, parse_hex, parse_two, send, to_hex};
use crate::console::{Console, here};
use crate::replay::{At, Breakpoint, Direction, Replay, Stopped, ThreadId, Watchpoint};

/// What is to be known in gdb of words that go elsewhere.
const MORE_HELP: &str = "\
After goto, first and last, gdb has to be told that registers are others: `maint flush register-cache` (the commands of
`backsight gdb --print-commands` do that).
";

const OK: &[u8] = b"OK";
/// Not allowed, or not there.
const ERROR: &[u8] = b"E01";

/// A server of the remote protocol, over one walk.
pub struct Server<'c, 'r> {
    replay: &'r mut Replay<'c>,
    out: Box<dyn Write + 'r>,
    receiver: Receiver,
    acknowledges: bool,
    /// The last answer, in case that it was not understood.
    answer: Vec<u8>,
    /// The thread that registers and memory are asked of, and the one that moves.
    asked: Option<ThreadId>,
    moving: Option<ThreadId>,
    breakpoints: BTreeMap<u64, Breakpoint>,
    console: Console,
    watchpoints: BTreeSet<Watchpoint>,
    arch: Arch,
    registers: Vec<Entry>,
    files: OpenFiles,
    /// Files in memory, as gdb was told last.
    told: Vec<Library>,
    /// The file that gdb was told is the program.
    program: Option<Library>,
    stopped: Stopped,
    has_ended: bool,
}

impl<'c, 'r> Server<'c, 'r> {
    /// Serves a walk from where it stands.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn new(replay: &'r mut Replay<'c>, out: impl Write + 'r) -> backsight::Result<Self> {
        let place = replay.place(replay.current())?;
        let what = place.map(|at| replay.what(at)).transpose()?.flatten();
        let arch = what.map_or(Arch::Aarch64, |what| Arch::of(what.isa));
        let mut server = Self {
            replay,
            out: Box::new(out),
            receiver: Receiver::default(),
            acknowledges: true,
            answer: Vec::new(),
            asked: None,
            moving: None,
            breakpoints: BTreeMap::new(),
            console: Console { gaps: true, exceptions: false, more_help: MORE_HELP },
            watchpoints: BTreeSet::new(),
            arch,
            registers: arch.registers(),
            files: OpenFiles::default(),
            told: Vec::new(),
            program: None,
            stopped: Stopped::Step,
            has_ended: false,
        };
        let libraries = server.libraries()?;
        server.program = libraries.into_iter().find(|library| library.is_program);
        Ok(server)
    }

    /// Takes bytes. False once the debugger wants no more.
    ///
    /// # Errors
    /// If nothing can be written any more.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<bool> {
        for &byte in bytes {
            match self.receiver.take(byte) {
                None => {}
                // What was interrupted has been answered.
                Some(Received::Interrupt) => {}
                Some(Received::Again) => {
                    let answer = std::mem::take(&mut self.answer);
                    self.send(answer)?;
                }
                Some(Received::Damaged) if self.acknowledges => self.out.write_all(b"-")?,
                Some(Received::Damaged) => {}
                Some(Received::Packet(packet)) => {
                    if self.acknowledges {
                        self.out.write_all(b"+")?;
                    }
                    if let Some(answer) = self.packet(&packet)? {
                        self.send(answer)?;
                    }
                }
            }
            if self.has_ended {
                break;
            }
        }
        self.out.flush()?;
        Ok(!self.has_ended)
    }

    fn send(&mut self, answer: Vec<u8>) -> io::Result<()> {
        send(&mut self.out, &answer)?;
        self.answer = answer;
        Ok(())
    }

    /// Text for the user, while execution goes on as far as gdb knows.
    fn say(&mut self, text: &str) -> io::Result<()> {
        // Two digits for each byte, and the letter.
        for part in text.as_bytes().chunks(MOST / 2 - 1) {
            send(&mut self.out, format!("O{}", to_hex(part)).as_bytes())?;
        }
        Ok(())
    }

    fn packet(&mut self, packet: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some((&first, rest)) = packet.split_first() else { return Ok(Some(Vec::new())) };
        let answer = match first {
            b'?' => self.stop_reply(),
            b'g' => self.all_registers(),
            b'p' => self.register(rest),
            b'm' => self.memory(rest),
            b'H' => Ok(self.choose_thread(rest)),
            b'T' => Ok(if self.thread_in(rest).is_some() { OK } else { ERROR }.to_vec()),
            b'Z' => self.set_breakpoint(rest),
            b'z' => Ok(self.remove_breakpoint(rest)),
            b's' | b'S' => return self.resume(true, Direction::Forwards).map(Some),
            b'c' | b'C' => return self.resume(false, Direction::Forwards).map(Some),
            b'b' if rest == b"s" => return self.resume(true, Direction::Backwards).map(Some),
            b'b' if rest == b"c" => return self.resume(false, Direction::Backwards).map(Some),
            // The past is not to be changed.
            b'G' | b'P' | b'M' | b'X' => Ok(ERROR.to_vec()),
            b'D' => {
                self.has_ended = true;
                Ok(OK.to_vec())
            }
            b'k' => {
                self.has_ended = true;
                return Ok(None);
            }
            b'q' | b'Q' | b'v' => self.query(packet),
            _ => Ok(Vec::new()),
        };
        Ok(Some(answer.unwrap_or_else(|error| {
            let _ = self.say(&format!("{error}\n"));
            ERROR.to_vec()
        })))
    }

    fn query(&mut self, packet: &[u8]) -> backsight::Result<Vec<u8>> {
        let colon = packet.iter().position(|byte| matches!(byte, b':' | b',')).unwrap_or(packet.len());
        let (name, rest) = packet.split_at(colon);
        let rest = rest.get(1..).unwrap_or_default();
        Ok(match name {
            b"qSupported" => format!(
                "PacketSize={MOST:x};QStartNoAckMode+;ReverseStep+;ReverseContinue+;swbreak+;hwbreak+;vContSupported-;\
                 qXfer:features:read+;qXfer:libraries:read+;qXfer:exec-file:read+;qXfer:threads:read+"
            )
            .into_bytes(),
            b"QStartNoAckMode" => {
                self.acknowledges = false;
                OK.to_vec()
            }
            b"qXfer" => self.transfer(rest)?,
            b"qfThreadInfo" => {
                let all = (1..=self.replay.threads().len()).map(|number| format!("{number:x}"));
                let list = all.collect::<Vec<_>>().join(",");
                format!("m{list}").into_bytes()
            }
            b"qsThreadInfo" => b"l".to_vec(),
            b"qThreadExtraInfo" => match self.thread_in(rest) {
                Some(thread) => to_hex(self.replay.threads()[thread.0].name.as_bytes()).into_bytes(),
                None => ERROR.to_vec(),
            },
            b"qC" => format!("QC{:x}", self.replay.current().0 + 1).into_bytes(),
            b"qAttached" => b"1".to_vec(),
            b"qSymbol" => OK.to_vec(),
            b"qOffsets" => match &self.program {
                Some(program) if program.bias != 0 => format!("TextSeg={:x}", program.start).into_bytes(),
                _ => Vec::new(),
            },
            b"qRcmd" => match parse_bytes(rest) {
                Some(words) => {
                    let text = self.console.answer(self.replay, &String::from_utf8_lossy(&words));
                    self.text(text)
                }
                None => ERROR.to_vec(),
            },
            b"qBacksightCalls" => self.calls()?,
            b"vFile" => {
                let at = here(self.replay)?;
                let code = self.replay.code(at)?;
                self.files.answer(rest, &code)
            }
            b"vKill" => {
                self.has_ended = true;
                OK.to_vec()
            }
            _ => Vec::new(),
        })
    }

    /// The last text is the answer; what there is no room for goes before it.
    fn text(&mut self, text: String) -> Vec<u8> {
        let parts: Vec<&[u8]> = text.as_bytes().chunks(MOST / 2 - 1).collect();
        let Some((last, before)) = parts.split_last() else { return OK.to_vec() };
        for part in before {
            // Where nothing can be written, the answer cannot be, either.
            let _ = send(&mut self.out, format!("O{}", to_hex(part)).as_bytes());
        }
        to_hex(last).into_bytes()
    }

    /// The thread that a packet names; the one that moved last where it names any.
    fn thread_in(&self, text: &[u8]) -> Option<ThreadId> {
        match text {
            b"0" | b"-1" => Some(self.replay.current()),
            digits => {
                let number = usize::try_from(parse_hex(digits)?.checked_sub(1)?).ok()?;
                (number < self.replay.threads().len()).then_some(ThreadId(number))
            }
        }
    }

    fn choose_thread(&mut self, text: &[u8]) -> Vec<u8> {
        let Some((what, thread)) = text.split_first() else { return ERROR.to_vec() };
        let Some(thread) = self.thread_in(thread) else { return ERROR.to_vec() };
        match what {
            b'g' => self.asked = Some(thread),
            b'c' => self.moving = Some(thread),
            _ => return ERROR.to_vec(),
        }
        OK.to_vec()
    }

    fn asked(&self) -> ThreadId {
        self.asked.unwrap_or(self.replay.current())
    }

    /// Where the thread is that is asked of.
    fn place(&mut self) -> backsight::Result<Option<At>> {
        self.replay.place(self.asked())
    }

    /// The bytes of a register as they are sent: `xx` for each that is not known.
    fn register_text(&mut self, at: Option<At>, entry: &Entry) -> backsight::Result<String> {
        let value = match (at, entry.holds) {
            (_, Holds::Zero) => Some(0),
            (None, _) | (_, Holds::Nothing) => None,
            (Some(at), Holds::Pc) => self.replay.what(at)?.map(|what| what.address.0),
            (Some(at), Holds::Moment) => Some(at.instruction),
            (Some(at), Holds::Calls) => Some(self.replay.calls(at)?.0.len() as u64),
            (Some(at), Holds::Value(register)) => self.replay.register(at, register),
        };
        Ok(match value {
            Some(value) => to_hex(value.to_le_bytes().get(..entry.bytes).unwrap_or_default()),
            None => "xx".repeat(entry.bytes),
        })
    }

    fn all_registers(&mut self) -> backsight::Result<Vec<u8>> {
        let (at, mut text) = (self.place()?, String::new());
        for index in 0..self.registers.len() {
            let entry = self.registers[index];
            text += &self.register_text(at, &entry)?;
        }
        Ok(text.into_bytes())
    }

    fn register(&mut self, text: &[u8]) -> backsight::Result<Vec<u8>> {
        let number = parse_hex(text);
        match self.registers.iter().find(|entry| Some(entry.number) == number).copied() {
            Some(entry) => {
                let at = self.place()?;
                Ok(self.register_text(at, &entry)?.into_bytes())
            }
            None => Ok(ERROR.to_vec()),
        }
    }

    /// Memory, as far as it is known from the address on.
    fn memory(&mut self, text: &[u8]) -> backsight::Result<Vec<u8>> {
        let (Some((address, length)), Some(at)) = (parse_two(text), self.place()?) else {
            return Ok(ERROR.to_vec());
        };
        let length = length.min(MOST as u64 / 2) as usize;
        let bytes = self.replay.memory(at, address, length)?;
        let known: Vec<u8> = bytes.into_iter().map_while(|byte| byte).collect();
        Ok(if known.is_empty() && length > 0 { ERROR.to_vec() } else { to_hex(&known).into_bytes() })
    }

    /// The files that are in memory where the walk stands, but for the program.
    fn libraries(&mut self) -> backsight::Result<Vec<Library>> {
        let at = here(self.replay)?;
        let Some(what) = self.replay.what(at)? else { return Ok(self.told.clone()) };
        let code = self.replay.code(at)?;
        let mut all = files::libraries(&code, what.space);
        all.retain(|library| Some(library) != self.program.as_ref());
        Ok(all)
    }

    fn transfer(&mut self, text: &[u8]) -> backsight::Result<Vec<u8>> {
        let parts: Vec<&[u8]> = text.splitn(4, |byte| *byte == b':').collect();
        let [object, b"read", annex, part] = parts[..] else { return Ok(Vec::new()) };
        let document = match (object, annex) {
            (b"features", b"target.xml") => self.arch.description(),
            (b"libraries", b"") => {
                self.told = self.libraries()?;
                files::document(&self.told)
            }
            (b"exec-file", _) => match &self.program {
                Some(program) => program.name.clone(),
                None => return Ok(ERROR.to_vec()),
            },
            (b"threads", b"") => self.threads(),
            (b"features" | b"libraries" | b"threads", _) => return Ok(b"E00".to_vec()),
            _ => return Ok(Vec::new()),
        };
        let Some((offset, length)) = parse_two(part) else { return Ok(ERROR.to_vec()) };
        let document = document.as_bytes();
        let rest = usize::try_from(offset).ok().and_then(|offset| document.get(offset..)).unwrap_or_default();
        let sent = rest.get(..(length as usize).min(MOST / 2 - 1)).unwrap_or(rest);
        let mut answer = vec![if sent.len() == rest.len() { b'l' } else { b'm' }];
        answer.extend_from_slice(sent);
        Ok(answer)
    }

    fn threads(&self) -> String {
        let mut xml = "<threads>".to_owned();
        for (number, thread) in (1..).zip(self.replay.threads()) {
            xml += &format!("<thread id=\"{number:x}\" name=\"{}\"/>", files::escaped(&thread.name));
        }
        xml + "</threads>"
    }

    /// The calls under way, for the unwinder: of each, where it returns to, where its function begins, and `h` for a handler.
    fn calls(&mut self) -> backsight::Result<Vec<u8>> {
        let Some(at) = self.place()? else { return Ok(ERROR.to_vec()) };
        let (calls, _) = self.replay.calls(at)?;
        let mut text = format!("{:x}", at.instruction);
        for call in &calls {
            let start = call.function.unwrap_or(call.entered);
            let return_address = call.return_address.map_or(0, |Address(address)| address);
            let kind = if call.is_handler { ",h" } else { "" };
            text += &format!(" {return_address:x},{:x}{kind}", start.0);
            // Deeper than that, gdb shows no frames.
            if text.len() > MOST / 2 {
                break;
            }
        }
        Ok(text.into_bytes())
    }
}
