//! The unit: follows execution, and writes what both protocols write alike.

use backsight_arm::etm::{Configuration, Encoder, Reason, State};
use backsight_core::{Access, Context, Execution, Isa, Retired, Security};
use backsight_isa::Instruction;

use super::observer::{Clock, Location, Observed, Observer, Pending};
use super::output::{Identifiers, state_of};
use super::{Statistics, Timestamps};

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig<C> {
    /// The registers: data trace is switched on there.
    pub config: C,
    /// Bytes between synchronisations; 0: only the first.
    pub sync_period: u64,
    /// PTM: entries of the return stack, 1 to 15, where it is switched on.
    pub return_stack_depth: u8,
    /// When to write timestamps, where they are switched on.
    pub timestamps: Timestamps,
    /// The context until the stream has another.
    pub context: Context,
}

impl<C> UnitConfig<C> {
    /// A unit with these registers and nothing special.
    pub fn new(config: C) -> Self {
        Self {
            config,
            sync_period: 1024,
            return_stack_depth: 8,
            timestamps: Timestamps::default(),
            context: Context::arm(0, Security::NonSecure, false),
        }
    }
}

/// What a protocol writes in its own way.
pub trait Protocol: Configuration {
    /// What waits to be written, and what decoders know.
    type Progress: Default + Send;

    /// Writes the atoms that wait.
    fn flush(writer: &mut Writer<Self>, out: &mut Vec<u8>);

    /// Execution breaks off.
    fn stop(writer: &mut Writer<Self>, out: &mut Vec<u8>);

    /// An I-sync, after which decoders may know nothing from before.
    fn i_sync(writer: &mut Writer<Self>, here: Location, reason: Reason) -> Self::Packet;

    /// A timestamp, in full if decoders are to begin with it.
    fn timestamp(writer: &mut Writer<Self>, value: u64, is_full: bool) -> Self::Packet;

    /// May packets for synchronisation be written here?
    fn may_synchronise(_writer: &Writer<Self>) -> bool {
        true
    }

    /// The next instruction is executed in another state than decoders know.
    fn change_state(writer: &mut Writer<Self>, here: Location, out: &mut Vec<u8>);

    /// Writes what comes last before an instruction.
    fn prepare(_writer: &mut Writer<Self>, _out: &mut Vec<u8>) {}

    /// An instruction retired. What is written before it is written.
    fn retire(writer: &mut Writer<Self>, retired: &Retired, instruction: &Instruction, out: &mut Vec<u8>);

    /// An indirect branch or an exception led here.
    fn arrive(writer: &mut Writer<Self>, pending: Pending, here: Location, out: &mut Vec<u8>);

    /// Memory was accessed.
    fn access(_writer: &mut Writer<Self>, _access: &Access, _out: &mut Vec<u8>) {}
}

/// A trace unit.
pub struct Unit<C: Protocol> {
    observer: Observer,
    writer: Writer<C>,
}

/// Writes the stream of a unit.
pub struct Writer<C: Protocol> {
    pub(crate) options: UnitConfig<C>,
    pub(crate) encoder: Encoder<C>,
    pub(crate) context: Context,
    pub(crate) sent_state: State,
    sent_identifiers: Identifiers,
    pub(crate) progress: C::Progress,
    pub(crate) clock: Clock,
    since_sync: u64,
    has_begun: bool,
    pub(crate) statistics: Statistics,
}

impl<C: Protocol> Unit<C> {
    /// A unit that is switched on and has seen nothing yet.
    pub fn new(options: UnitConfig<C>) -> Self {
        Self {
            observer: Observer::new(&options.context),
            writer: Writer {
                encoder: Encoder::new(&options.config),
                context: options.context,
                sent_state: State::default(),
                sent_identifiers: Identifiers::default(),
                progress: C::Progress::default(),
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
        let writer = &mut self.writer;
        if writer.config().timestamps() && writer.has_begun {
            writer.clock.now = writer.clock.now.max(time);
            writer.timestamp(false, out);
        }
    }

    /// What became of the instructions so far.
    pub fn statistics(&self) -> Statistics {
        self.writer.statistics
    }
}

impl<C: Protocol> Writer<C> {
    fn observe(&mut self, observed: &Observed<'_>, out: &mut Vec<u8>) {
        match *observed {
            Observed::Start(here) => self.start(here, out),
            Observed::Instruction(retired, instruction) => {
                self.between(Location { address: retired.address, isa: retired.isa }, out);
                self.statistics.instructions += 1;
                self.clock.tick(retired, self.statistics.instructions);
                C::retire(self, retired, &instruction, out);
            }
            Observed::Arrival(pending, here) => C::arrive(self, pending, here, out),
            Observed::Context(context) => self.context = Context { wide: false, ..*context },
            Observed::Access(access) => C::access(self, access, out),
            Observed::Stop => C::stop(self, out),
        }
    }

    pub(crate) fn config(&self) -> &C {
        &self.options.config
    }

    /// Writes a packet, after the atoms that wait.
    pub(crate) fn put(&mut self, packet: C::Packet, out: &mut Vec<u8>) {
        C::flush(self, out);
        self.write(packet, out);
    }

    pub(crate) fn write(&mut self, packet: C::Packet, out: &mut Vec<u8>) {
        let encoded = self.encoder.encode(&packet);
        debug_assert!(encoded.is_ok(), "{packet:?}: {encoded:?}");
        if let Ok(bytes) = encoded {
            out.extend_from_slice(bytes);
            self.since_sync += bytes.len() as u64;
        }
    }

    pub(crate) fn identifiers(&self) -> Identifiers {
        let config = self.config();
        Identifiers::of(&self.context, config.registers().context_id_bytes(), config.vmid())
    }

    /// Tracing begins, or begins again after a break.
    fn start(&mut self, here: Location, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.write(C::ASYNC, out);
            self.statistics.synchronisations += 1;
        }
        self.i_sync(here, Reason::TraceEnabled, out);
        self.timestamp_if_due(true, out);
    }

    pub(crate) fn i_sync(&mut self, here: Location, reason: Reason, out: &mut Vec<u8>) {
        let identifiers = self.identifiers();
        let sync = C::i_sync(self, here, reason);
        self.put(sync, out);
        // No I-sync has the VMID, and decoders may begin here.
        if let Some(vmid) = identifiers.vmid {
            self.put(C::vmid_packet(vmid), out);
        }
        self.sent_state = state_of(&self.context);
        self.sent_identifiers = identifiers;
    }

    /// The state at the target of a branch, if a decoder has to be told, and whether that takes the long form. The atoms that
    /// wait are written.
    pub(crate) fn state_to_say(
        &mut self,
        to: Location,
        exception: Option<u16>,
        out: &mut Vec<u8>,
    ) -> Option<(State, bool)> {
        C::flush(self, out);
        let state = state_of(&self.context);
        let before = std::mem::replace(&mut self.sent_state, state);
        let must_say = exception.is_some() || state != before || self.encoder.must_say_alt_isa(to.isa);
        must_say.then_some((State { alt_isa: to.isa == Isa::ThumbEe, ..state }, state.hyp || before.hyp))
    }

    /// A timestamp, if it is time for one.
    pub(crate) fn timestamp_if_due(&mut self, is_full: bool, out: &mut Vec<u8>) {
        if self.config().timestamps() && self.clock.is_due(&self.options.timestamps) {
            self.timestamp(is_full, out);
        }
    }

    fn timestamp(&mut self, is_full: bool, out: &mut Vec<u8>) {
        let value = self.options.timestamps.first.wrapping_add(self.clock.now) & ((1 << 48) - 1);
        C::flush(self, out);
        let timestamp = C::timestamp(self, value, is_full);
        self.write(timestamp, out);
    }

    /// What is written between two instructions.
    fn between(&mut self, here: Location, out: &mut Vec<u8>) {
        let period = self.options.sync_period;
        if period > 0 && self.since_sync >= period && C::may_synchronise(self) {
            self.put(C::ASYNC, out);
            self.since_sync = 0;
            self.statistics.synchronisations += 1;
            self.i_sync(here, Reason::Periodic, out);
            if self.config().timestamps() {
                self.timestamp(true, out);
            }
        }
        if state_of(&self.context) != self.sent_state {
            C::change_state(self, here, out);
        }
        let identifiers = self.identifiers();
        if identifiers != self.sent_identifiers {
            if identifiers.context_id != self.sent_identifiers.context_id
                && let Some(id) = identifiers.context_id
            {
                self.put(C::context_id_packet(id), out);
            }
            if identifiers.vmid != self.sent_identifiers.vmid
                && let Some(vmid) = identifiers.vmid
            {
                self.put(C::vmid_packet(vmid), out);
            }
            self.sent_identifiers = identifiers;
        }
        C::prepare(self, out);
    }
}
