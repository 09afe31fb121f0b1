//! The instructions of a Tarmac log, with opcodes, registers and times of its lines.
//!
//! Which instructions were executed, and in which order they count, the follower says. It says so at the end of a range: lines wait until
//! then.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;
use std::ops::Range;

use backsight_core::{Address, Located};
use backsight_flow::Event;
use backsight_flow::tarmac::{Follower, isa_of};
use backsight_tarmac::{Bytes, Config, Contents, Decoder, Instruction, Line, Machine, Packet, Register};

use super::{Batches, Note, Read, Step};
use crate::{Buffer, Result};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 18;

/// Most cores that are kept apart.
const MOST_CORES: usize = 1024;

/// Writes of registers that wait: a hundred times as many as instructions in a range have.
const MOST_WAITING: usize = 1 << 20;

struct Reader<'b, 's, 'c> {
    batches: &'b mut Batches<'s, 'c>,
    core: Option<u16>,
    window: Range<u64>,
    followers: BTreeMap<u16, Follower<()>>,
    machine: Machine,
    /// Instructions of the core that the follower has not given yet, and the number of the first.
    waiting: VecDeque<(Step, u64)>,
    first: u64,
    /// What they wrote, with their numbers.
    registers: VecDeque<(u64, Register, Bytes)>,
    /// What the follower says of a line.
    events: Vec<Event>,
    read: Read,
}

pub(super) fn read(
    buffer: &Buffer,
    config: &Config,
    core: Option<u16>,
    window: Range<u64>,
    batches: &mut Batches<'_, '_>,
) -> Result<Read> {
    // Registers alone are looked at.
    let (machine, followers) = (Machine::new(0), BTreeMap::new());
    let (waiting, registers, events, read) = Default::default();
    let mut reader =
        Reader { batches, core, window, followers, machine, waiting, first: 1, registers, events, read };
    let mut decoder = Decoder::new(config);
    let (mut input, mut block) = (buffer.open()?, vec![0; BLOCK]);
    while !reader.batches.has_enough {
        match input.read(&mut block) {
            Ok(0) => {
                decoder.finish(&mut |packet| reader.packet(&packet));
                reader.finish();
                break;
            }
            Ok(count) => decoder.feed(&block[..count], &mut |packet| reader.packet(&packet)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(backsight_capture::Error::io(buffer.name(), &error).into()),
        }
    }
    reader.read.decoded = decoder.accounting();
    Ok(reader.read)
}

impl Reader<'_, '_, '_> {
    fn packet(&mut self, packet: &Located<Packet>) {
        if self.batches.has_enough {
            return;
        }
        if let Line::Bad(_) = packet.value.line {
            let mut cores: Vec<u16> = self.followers.keys().copied().collect();
            cores.drain(..).for_each(|core| self.follow(core, packet));
            return;
        }
        let core = packet.value.core;
        if let Line::Instruction(it) = packet.value.line {
            self.core.get_or_insert(core);
            self.read.harts.insert(core);
            self.follow(core, packet);
            if self.core == Some(core) {
                self.machine.push(packet);
                self.waiting.push_back((step_of(&it), packet.value.time));
            }
            return;
        }
        self.follow(core, packet);
        if let Line::Register(_) = packet.value.line
            && self.core.is_none_or(|own| own == core)
        {
            self.machine.push(packet);
            self.register(core);
        }
    }

    fn register(&mut self, core: u16) {
        let Some(register) = self.machine.written() else { return };
        let Some(contents) = self.machine.register(core, register) else { return };
        let value = bytes_of(contents);
        let by = self.first + self.waiting.len() as u64 - 1;
        if self.registers.len() < MOST_WAITING {
            self.registers.push_back((by, register, value));
        } else {
            self.read.lost += 1;
        }
    }

    fn follow(&mut self, core: u16, packet: &Located<Packet>) {
        if self.followers.len() >= MOST_CORES && !self.followers.contains_key(&core) {
            return;
        }
        let follower = self.followers.entry(core).or_insert_with(|| Follower::new(()));
        let mut events = std::mem::take(&mut self.events);
        follower.push(*packet, &mut |event: Located<Event>| events.push(event.value));
        events.drain(..).for_each(|event| self.event(core, event));
        self.events = events;
    }

    fn finish(&mut self) {
        for (core, mut follower) in std::mem::take(&mut self.followers) {
            let mut events = Vec::new();
            follower.finish(&mut |event: Located<Event>| events.push(event.value));
            events.into_iter().for_each(|event| self.event(core, event));
        }
    }

    fn is_inside(&self) -> bool {
        self.window.contains(&self.batches.next)
    }

    fn event(&mut self, core: u16, event: Event) {
        if self.core != Some(core) {
            if let Event::Range(range) = event {
                self.batches.next += u64::from(range.instructions);
            }
            return;
        }
        self.batches.follow(&event);
        match event {
            Event::Range(range) => {
                let mut address = range.start;
                for _ in 0..range.instructions {
                    let Some(next) = self.step(address) else { break };
                    address = next;
                }
            }
            _ if !self.is_inside() && self.batches.next != self.window.end => {}
            Event::Exception { cause, return_address, .. } => {
                self.batches.note(Note::Exception { cause, return_address });
            }
            Event::ExceptionReturn => self.batches.mark_return(),
            Event::Access(access) => self.batches.access(access),
            event if event.is_break() => self.batches.note(Note::Gap),
            _ => {}
        }
        if self.batches.next > self.window.end {
            self.batches.has_enough = true;
        }
    }

    /// The next instruction that was executed, at that address; those that wait before it were not. Gives where it ends.
    fn step(&mut self, address: Address) -> Option<Address> {
        let (step, time) = loop {
            let next = self.waiting.pop_front()?;
            if next.0.address == address {
                break next;
            }
            self.first += 1;
        };
        let is_inside = self.is_inside();
        self.give_registers(self.first - 1);
        if is_inside {
            self.batches.begin_step();
            self.batches.time(time);
            self.batches.step(step);
        } else {
            self.batches.next += 1;
        }
        self.give_registers(self.first);
        self.first += 1;
        Some(address.plus(u64::from(step.size)))
    }

    /// Gives what instructions up to that one wrote.
    fn give_registers(&mut self, last: u64) {
        while let Some(&(by, register, value)) = self.registers.front()
            && by <= last
        {
            self.registers.pop_front();
            if self.batches.next <= self.window.end {
                self.batches.note(Note::Register(register, value));
            }
        }
    }
}

fn step_of(it: &Instruction) -> Step {
    Step {
        address: Address(it.address),
        opcode: it.opcode,
        size: it.size,
        isa: isa_of(it.state),
        is_fetched: it.fetched,
        returns: false,
    }
}

fn bytes_of(contents: &Contents) -> Bytes {
    let mut bytes = Bytes::default();
    for (index, byte) in contents.bytes.iter().take(16).enumerate() {
        bytes.touched |= 1 << index;
        bytes.known |= u16::from(byte.is_some()) << index;
        bytes.bytes[index] = byte.unwrap_or(0);
    }
    bytes
}
