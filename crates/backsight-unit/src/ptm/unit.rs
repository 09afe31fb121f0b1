//! Follows execution, and decides what a decoder has to be sent.

use backsight_arm::ptm::{Atoms, Config, Encoder, ISync, Information, Packet, Reason, State};
use backsight_core::{Address, Context, Execution, Isa, Retired, Security};
use backsight_isa::{Class, Instruction};

use crate::etm::{
    Clock, Identifiers, Location, Observed, Observer, Pending, Statistics, Timestamps, state_of,
};

/// Entries that any return stack can have: decoders keep 16, and a unit must keep fewer.
const DEEPEST_STACK: usize = 15;

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig {
    /// The registers.
    pub config: Config,
    /// Bytes between synchronisations; 0: only the first.
    pub sync_period: u64,
    /// When to write timestamps, where they are switched on.
    pub timestamps: Timestamps,
    /// Entries of the return stack, 1 to 15, where it is switched on.
    pub return_stack_depth: u8,
    /// The context until the stream has another.
    pub context: Context,
}

impl UnitConfig {
    /// A unit with these registers and nothing special.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            sync_period: 1024,
            timestamps: Timestamps::default(),
            return_stack_depth: 8,
            context: Context::arm(0, Security::NonSecure, false),
        }
    }
}

/// A PTM.
pub struct Unit {
    observer: Observer,
    writer: Writer,
}

struct Writer {
    options: UnitConfig,
    encoder: Encoder,
    context: Context,
    sent_state: State,
    sent_identifiers: Identifiers,
    /// Atoms that wait for more, the oldest in bit 0.
    atoms: (u8, u8),
    stack: Vec<Location>,
    /// Instructions since the last waypoint, and the last of them.
    block: u64,
    last: Location,
    /// A branch that waits for where it led.
    call: Option<Location>,
    clock: Clock,
    since_sync: u64,
    has_begun: bool,
    statistics: Statistics,
}

impl Unit {
    /// A unit that is switched on and has seen nothing yet.
    pub fn new(options: UnitConfig) -> Self {
        Self {
            observer: Observer::new(&options.context),
            writer: Writer {
                encoder: Encoder::new(&options.config),
                context: options.context,
                sent_state: State::default(),
                sent_identifiers: Identifiers::default(),
                atoms: (0, 0),
                stack: Vec::new(),
                block: 0,
                last: Location { address: Address(0), isa: Isa::A32 },
                call: None,
                clock: Clock::default(),
                since_sync: 0,
                has_begun: false,
                statistics: Statistics::default(),
                options,
            },
        }
    }

    /// One step of execution; bytes of trace go to the end of `out`.
    pub fn push(&mut self, item: Execution, out: &mut Vec<u8>) {
        let Self { observer, writer } = self;
        observer.push(&item, &mut |observed| writer.observe(&observed, out));
    }

    /// Many steps of execution.
    pub fn push_all(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        items.iter().for_each(|item| self.push(*item, out));
    }

    /// Execution ends here: writes what is still to say.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Self { observer, writer } = self;
        observer.stop(&mut |observed| writer.observe(&observed, out));
    }

    /// A timestamp is wanted here and now, as an event of the unit's resources asks for one (ETMTSEVR). Before the first
    /// synchronisation there is none.
    pub fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        self.writer.request_timestamp(time, out);
    }

    /// What became of the instructions so far.
    pub fn statistics(&self) -> Statistics {
        self.writer.statistics
    }
}

impl Writer {
    fn observe(&mut self, observed: &Observed<'_>, out: &mut Vec<u8>) {
        match *observed {
            Observed::Start(here) => self.start(here, out),
            Observed::Instruction(retired, instruction) => self.instruction(retired, &instruction, out),
            Observed::Arrival(pending, here) => self.arrive(pending, here, out),
            Observed::Context(context) => self.context = Context { wide: false, ..*context },
            Observed::Access(_) => {}
            Observed::Stop => self.update(out),
        }
    }

    fn config(&self) -> &Config {
        &self.options.config
    }

    fn cycles(&mut self) -> Option<u32> {
        self.config().cycle_accurate().then(|| self.clock.count())
    }

    /// Writes a packet, after the atoms that wait.
    fn put(&mut self, packet: Packet, out: &mut Vec<u8>) {
        self.flush(out);
        self.write(packet, out);
    }

    fn write(&mut self, packet: Packet, out: &mut Vec<u8>) {
        let encoded = self.encoder.encode(&packet);
        debug_assert!(encoded.is_ok(), "{packet:?}: {encoded:?}");
        if let Ok(bytes) = encoded {
            out.extend_from_slice(bytes);
            self.since_sync += bytes.len() as u64;
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let (bits, count) = std::mem::take(&mut self.atoms);
        if count > 0 {
            self.write(Packet::Atoms(Atoms { bits, count, cycles: None }), out);
        }
    }

    fn atom(&mut self, executed: bool, out: &mut Vec<u8>) {
        self.block = 0;
        if let Some(cycles) = self.cycles() {
            let bits = u8::from(executed);
            return self.write(Packet::Atoms(Atoms { bits, count: 1, cycles: Some(cycles) }), out);
        }
        let (bits, count) = self.atoms;
        self.atoms = (bits | u8::from(executed) << count, count + 1);
        if count == 4 {
            self.flush(out);
        }
    }

    fn identifiers(&self) -> Identifiers {
        Identifiers::of(&self.context, self.config().context_id_bytes(), self.config().vmid())
    }

    /// Tracing begins, or begins again after a break.
    fn start(&mut self, here: Location, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.write(Packet::Async, out);
            self.statistics.synchronisations += 1;
        }
        self.i_sync(here, Reason::TraceEnabled, out);
        if self.config().timestamps() && self.clock.is_due(&self.options.timestamps) {
            self.timestamp(true, out);
        }
    }

    fn i_sync(&mut self, here: Location, reason: Reason, out: &mut Vec<u8>) {
        let state = state_of(&self.context);
        let identifiers = self.identifiers();
        let cycles = if reason == Reason::Periodic { None } else { self.cycles() };
        let Location { address, isa } = here;
        let context_id = identifiers.context_id;
        self.put(Packet::ISync(ISync { address, isa, reason, state, context_id, cycles }), out);
        // No I-sync has the VMID, and decoders may begin here.
        if let Some(vmid) = identifiers.vmid {
            self.put(Packet::Vmid(vmid), out);
        }
        self.sent_state = state;
        self.sent_identifiers = identifiers;
        // Decoders forget calls at an I-sync.
        self.stack.clear();
        self.block = 0;
    }

    fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        if self.config().timestamps() && self.has_begun {
            self.clock.now = self.clock.now.max(time);
            self.timestamp(false, out);
        }
    }

    fn timestamp(&mut self, is_full: bool, out: &mut Vec<u8>) {
        self.flush(out);
        let cycles = self.cycles();
        let value = self.options.timestamps.first.wrapping_add(self.clock.now) & ((1 << 48) - 1);
        let timestamp = match is_full {
            true => self.encoder.full_timestamp(value, cycles),
            false => self.encoder.timestamp(value, cycles),
        };
        self.write(Packet::Timestamp(timestamp), out);
    }

    /// What is written between a waypoint and the next instruction.
    fn between(&mut self, here: Location, out: &mut Vec<u8>) {
        let period = self.options.sync_period;
        if self.block == 0 && period > 0 && self.since_sync >= period {
            self.put(Packet::Async, out);
            self.since_sync = 0;
            self.statistics.synchronisations += 1;
            self.i_sync(here, Reason::Periodic, out);
            if self.config().timestamps() {
                self.timestamp(true, out);
            }
        }
        if state_of(&self.context) != self.sent_state {
            // No packet says so without a branch.
            self.update(out);
            self.i_sync(here, Reason::TraceEnabled, out);
        }
        let identifiers = self.identifiers();
        if identifiers != self.sent_identifiers {
            if identifiers.context_id != self.sent_identifiers.context_id
                && let Some(id) = identifiers.context_id
            {
                self.put(Packet::ContextId(id), out);
            }
            if identifiers.vmid != self.sent_identifiers.vmid
                && let Some(vmid) = identifiers.vmid
            {
                self.put(Packet::Vmid(vmid), out);
            }
            self.sent_identifiers = identifiers;
        }
    }

    fn instruction(&mut self, retired: &Retired, instruction: &Instruction, out: &mut Vec<u8>) {
        self.between(Location { address: retired.address, isa: retired.isa }, out);
        self.statistics.instructions += 1;
        self.clock.tick(retired, self.statistics.instructions);
        self.block += 1;
        self.last = Location { address: retired.address, isa: retired.isa };
        let is_waypoint = match instruction.class {
            Class::DirectBranch | Class::IndirectBranch | Class::Isb => true,
            Class::DataBarrier => self.config().barriers_are_waypoints(),
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
                self.call = call;
                return;
            }
            Class::DirectBranch if retired.taken && self.config().branch_broadcast() => {
                let target = Location { address: instruction.target, isa: instruction.target_isa };
                self.branch(target, None, out);
            }
            _ => self.atom(retired.taken, out),
        }
        self.push_call(call);
        if self.config().timestamps() && self.clock.is_due(&self.options.timestamps) {
            self.timestamp(false, out);
        }
    }

    fn push_call(&mut self, call: Option<Location>) {
        let Some(call) = call.filter(|_| self.config().return_stack()) else { return };
        let depth = usize::from(self.options.return_stack_depth).clamp(1, DEEPEST_STACK);
        if self.stack.len() == depth {
            self.stack.remove(0);
        }
        self.stack.push(call);
    }

    /// An indirect branch or an exception led here.
    fn arrive(&mut self, pending: Pending, here: Location, out: &mut Vec<u8>) {
        match pending {
            Pending::Branch { exception_return } => {
                let call = self.call.take();
                let state = state_of(&self.context);
                let is_remembered = !exception_return
                    && self.config().return_stack()
                    && state == self.sent_state
                    && self.stack.last() == Some(&here);
                if is_remembered {
                    self.stack.pop();
                    self.atom(true, out);
                } else {
                    self.branch(here, None, out);
                }
                self.push_call(call);
                if exception_return && self.config().minor() >= 1 {
                    self.put(Packet::ExceptionReturn, out);
                }
            }
            Pending::Exception { number } => {
                self.update(out);
                self.branch(here, Some(number), out);
            }
        }
    }

    fn branch(&mut self, to: Location, exception: Option<u16>, out: &mut Vec<u8>) {
        self.flush(out);
        let state = state_of(&self.context);
        let must_say =
            exception.is_some() || state != self.sent_state || self.encoder.must_say_alt_isa(to.isa);
        let information = must_say.then(|| Information {
            state: State { alt_isa: to.isa == Isa::ThumbEe, ..state },
            exception: exception.unwrap_or(0),
            is_long: state.hyp || self.sent_state.hyp,
        });
        self.sent_state = state;
        let cycles = self.cycles();
        let branch = self.encoder.branch_to(to.address, to.isa, information, cycles);
        self.write(Packet::Branch(branch), out);
        self.block = 0;
    }

    /// Says how far execution came since the last waypoint.
    fn update(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.block) > 0 {
            let update = self.encoder.waypoint_update_at(self.last.address, self.last.isa);
            self.put(Packet::WaypointUpdate(update), out);
        }
        self.flush(out);
    }
}
