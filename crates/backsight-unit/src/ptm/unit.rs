//! What a decoder has to be sent of waypoints and branches.

use backsight_arm::ptm::{Atoms, Config, ISync, Information, Packet, Reason};
use backsight_core::Retired;
use backsight_isa::{Class, Instruction};

use crate::etm::{Location, Pending, Protocol, Writer, state_of};

/// Entries that any return stack can have: decoders keep 16, and a unit must keep fewer.
const DEEPEST_STACK: usize = 15;

/// What waits, and what decoders know of calls.
#[derive(Default)]
pub struct Progress {
    /// Atoms that wait for more, the oldest in bit 0.
    atoms: (u8, u8),
    stack: Vec<Location>,
    /// The last instruction since the last waypoint.
    last: Option<Location>,
    /// A branch that waits for where it led.
    call: Option<Location>,
}

impl Protocol for Config {
    type Progress = Progress;

    fn flush(writer: &mut Writer<Self>, out: &mut Vec<u8>) {
        let (bits, count) = std::mem::take(&mut writer.progress.atoms);
        if count > 0 {
            writer.write(Packet::Atoms(Atoms { bits, count, cycles: None }), out);
        }
    }

    /// Says how far execution came since the last waypoint.
    fn stop(writer: &mut Writer<Self>, out: &mut Vec<u8>) {
        if let Some(last) = writer.progress.last.take() {
            let update = writer.encoder.waypoint_update_at(last.address, last.isa);
            writer.put(Packet::WaypointUpdate(update), out);
        }
        Self::flush(writer, out);
    }

    fn i_sync(writer: &mut Writer<Self>, here: Location, reason: Reason) -> Packet {
        let cycles = if reason == Reason::Periodic { None } else { writer.cycles() };
        let Location { address, isa } = here;
        let (state, context_id) = (state_of(&writer.context), writer.identifiers().context_id);
        // Decoders forget calls at an I-sync.
        writer.progress.stack.clear();
        writer.progress.last = None;
        Packet::ISync(ISync { address, isa, reason, state, context_id, cycles })
    }

    fn timestamp(writer: &mut Writer<Self>, value: u64, is_full: bool) -> Packet {
        let cycles = writer.cycles();
        Packet::Timestamp(match is_full {
            true => writer.encoder.full_timestamp(value, cycles),
            false => writer.encoder.timestamp(value, cycles),
        })
    }

    /// Only after a waypoint.
    fn may_synchronise(writer: &Writer<Self>) -> bool {
        writer.progress.last.is_none()
    }

    fn change_state(writer: &mut Writer<Self>, here: Location, out: &mut Vec<u8>) {
        // No packet says so without a branch.
        Self::stop(writer, out);
        writer.i_sync(here, Reason::TraceEnabled, out);
    }

    fn retire(writer: &mut Writer<Self>, retired: &Retired, instruction: &Instruction, out: &mut Vec<u8>) {
        writer.progress.last = Some(Location { address: retired.address, isa: retired.isa });
        let is_waypoint = match instruction.class {
            Class::DirectBranch | Class::IndirectBranch | Class::Isb => true,
            Class::DataBarrier => writer.config().barriers_are_waypoints(),
            _ => false,
        };
        if !is_waypoint {
            return;
        }
        let call = (instruction.flags.link && retired.taken)
            .then_some(Location { address: retired.end(), isa: retired.isa });
        match instruction.class {
            // Where it led decides what is written.
            Class::IndirectBranch if retired.taken => {
                writer.progress.call = call;
                return;
            }
            Class::DirectBranch if retired.taken && writer.config().branch_broadcast() => {
                let target = Location { address: instruction.target, isa: instruction.target_isa };
                writer.branch(target, None, out);
            }
            _ => writer.atom(retired.taken, out),
        }
        writer.push_call(call);
        writer.timestamp_if_due(false, out);
    }

    fn arrive(writer: &mut Writer<Self>, pending: Pending, here: Location, out: &mut Vec<u8>) {
        match pending {
            Pending::Branch { exception_return } => {
                let call = writer.progress.call.take();
                let state = state_of(&writer.context);
                let is_remembered = !exception_return
                    && writer.config().return_stack()
                    && state == writer.sent_state
                    && writer.progress.stack.last() == Some(&here);
                if is_remembered {
                    writer.progress.stack.pop();
                    writer.atom(true, out);
                } else {
                    writer.branch(here, None, out);
                }
                writer.push_call(call);
                if exception_return && writer.config().minor() >= 1 {
                    writer.put(Packet::ExceptionReturn, out);
                }
            }
            Pending::Exception { number } => {
                Self::stop(writer, out);
                writer.branch(here, Some(number), out);
            }
        }
    }
}

impl Writer<Config> {
    fn cycles(&mut self) -> Option<u32> {
        self.config().cycle_accurate().then(|| self.clock.count())
    }

    fn atom(&mut self, executed: bool, out: &mut Vec<u8>) {
        self.progress.last = None;
        if let Some(cycles) = self.cycles() {
            let bits = u8::from(executed);
            return self.write(Packet::Atoms(Atoms { bits, count: 1, cycles: Some(cycles) }), out);
        }
        let (bits, count) = self.progress.atoms;
        self.progress.atoms = (bits | u8::from(executed) << count, count + 1);
        if count == 4 {
            Config::flush(self, out);
        }
    }

    fn push_call(&mut self, call: Option<Location>) {
        let Some(call) = call.filter(|_| self.config().return_stack()) else { return };
        let depth = usize::from(self.options.return_stack_depth).clamp(1, DEEPEST_STACK);
        let stack = &mut self.progress.stack;
        if stack.len() == depth {
            stack.remove(0);
        }
        stack.push(call);
    }

    fn branch(&mut self, to: Location, exception: Option<u16>, out: &mut Vec<u8>) {
        let said = self.state_to_say(to, exception, out);
        let information =
            said.map(|(state, is_long)| Information { state, exception: exception.unwrap_or(0), is_long });
        let cycles = self.cycles();
        let branch = self.encoder.branch_to(to.address, to.isa, information, cycles);
        self.write(Packet::Branch(branch), out);
        self.progress.last = None;
    }
}
