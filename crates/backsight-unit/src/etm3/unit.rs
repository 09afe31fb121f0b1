//! Follows execution, and decides what a decoder has to be sent.

use backsight_arm::etm3::{
    Config, DataAddress, DataValue, Encoder, ISync, Information, PHeader, Packet, Reason, State,
};
use backsight_core::{Access, Context, Execution, Isa, Retired, Security};
use backsight_isa::{Class, Instruction};

use super::atoms::Run;
use crate::etm::{
    Clock, Identifiers, Location, Observed, Observer, Pending, Statistics, Timestamps, state_of,
};

/// How a unit is built and programmed.
#[derive(Clone, Copy, Debug)]
pub struct UnitConfig {
    /// The registers: data trace is switched on there.
    pub config: Config,
    /// Bytes between synchronisations; 0: only the first.
    pub sync_period: u64,
    /// When to write timestamps, where they are switched on.
    pub timestamps: Timestamps,
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
            context: Context::arm(0, Security::NonSecure, false),
        }
    }
}

/// An ETMv3.
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
    run: Run,
    /// Where the next word of the last instruction's accesses is, if it follows.
    next_data: Option<u32>,
    /// The next data address is written in full, so that decoders can begin with it.
    data_sync: bool,
    clock: Clock,
    /// The cycle of the last atom.
    timed: u64,
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
                run: Run::default(),
                next_data: None,
                data_sync: true,
                clock: Clock::default(),
                timed: 0,
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
            Observed::Access(access) => self.access(access, out),
            Observed::Stop => self.flush(out),
        }
    }

    fn config(&self) -> &Config {
        &self.options.config
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
        if let Some(header) = self.run.take(self.config().cycle_accurate()) {
            self.write(Packet::PHeader(header), out);
        }
    }

    fn atom(&mut self, executed: bool, out: &mut Vec<u8>) {
        if self.config().data_only() {
            return;
        }
        let mut full: Vec<PHeader> = Vec::new();
        if self.config().cycle_accurate() {
            let cycles = self.clock.now.saturating_sub(self.timed);
            let has_format_4 = self.config().minor() >= 3;
            self.run.push_timed(executed, cycles, has_format_4, &mut |header| full.push(header));
            self.timed = self.clock.now;
        } else {
            full.extend(self.run.push(executed));
        }
        full.into_iter().for_each(|header| self.write(Packet::PHeader(header), out));
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
        let is_data_only = self.config().data_only();
        let sync = ISync {
            address: (!is_data_only).then_some(here.address),
            isa: if is_data_only { Isa::A32 } else { here.isa },
            reason,
            state,
            context_id: identifiers.context_id,
            cycles: None,
            next: None,
        };
        self.put(Packet::ISync(sync), out);
        // No I-sync has the VMID, and decoders may begin here.
        if let Some(vmid) = identifiers.vmid {
            self.put(Packet::Vmid(vmid), out);
        }
        self.sent_state = state;
        self.sent_identifiers = identifiers;
        (self.next_data, self.data_sync) = (None, true);
    }

    fn request_timestamp(&mut self, time: u64, out: &mut Vec<u8>) {
        if self.config().timestamps() && self.has_begun {
            self.clock.now = self.clock.now.max(time);
            self.timestamp(false, out);
        }
    }

    fn timestamp(&mut self, is_full: bool, out: &mut Vec<u8>) {
        let value = self.options.timestamps.first.wrapping_add(self.clock.now) & ((1 << 48) - 1);
        let timestamp =
            if is_full { self.encoder.full_timestamp(value) } else { self.encoder.timestamp(value) };
        self.put(Packet::Timestamp(timestamp), out);
    }

    /// What is written before an instruction.
    fn between(&mut self, here: Location, out: &mut Vec<u8>) {
        let period = self.options.sync_period;
        if period > 0 && self.since_sync >= period {
            self.put(Packet::Async, out);
            self.since_sync = 0;
            self.statistics.synchronisations += 1;
            self.i_sync(here, Reason::Periodic, out);
            if self.config().timestamps() {
                self.timestamp(true, out);
            }
        }
        if state_of(&self.context) != self.sent_state {
            if self.config().data_only() {
                self.i_sync(here, Reason::Periodic, out);
            } else {
                self.branch(here, None, out);
            }
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
        if self.config().timestamps() && self.clock.is_due(&self.options.timestamps) {
            self.timestamp(false, out);
        }
    }

    fn instruction(&mut self, retired: &Retired, instruction: &Instruction, out: &mut Vec<u8>) {
        self.between(Location { address: retired.address, isa: retired.isa }, out);
        self.statistics.instructions += 1;
        self.clock.tick(retired, self.statistics.instructions);
        self.next_data = None;
        self.atom(retired.taken, out);
        if instruction.class == Class::DirectBranch && retired.taken && !self.config().data_only() {
            // The instruction set changes: decoders are told, though the code says it too.
            let changes = instruction.target_isa != retired.isa;
            if changes || self.config().branch_broadcast() {
                let target = Location { address: instruction.target, isa: instruction.target_isa };
                self.branch(target, None, out);
            }
        }
    }

    /// An indirect branch or an exception led here.
    fn arrive(&mut self, pending: Pending, here: Location, out: &mut Vec<u8>) {
        if self.config().data_only() {
            return;
        }
        match pending {
            Pending::Branch { exception_return } => {
                if exception_return && self.config().minor() >= 5 {
                    self.put(Packet::ExceptionExit, out);
                }
                self.branch(here, None, out);
            }
            Pending::Exception { number } => self.branch(here, Some(number), out),
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
            cancels: false,
            is_long: state.hyp || self.sent_state.hyp,
            resume: None,
        });
        self.sent_state = state;
        let branch = self.encoder.branch_to(to.address, to.isa, information);
        self.write(Packet::Branch(branch), out);
    }

    /// Memory was accessed: a packet for each word.
    fn access(&mut self, access: &Access, out: &mut Vec<u8>) {
        if !self.config().data_trace() {
            return;
        }
        let mut address = access.address.0 as u32;
        let mut value = access.value;
        let mut left = access.size;
        self.statistics.accesses += 1;
        while left > 0 {
            let size = left.min(4);
            let part = value & if size < 4 { (1 << (8 * size)) - 1 } else { 0xFFFF_FFFF };
            self.transfer(address, size, access.known.then_some(part as u32), out);
            address = address.wrapping_add(size.into());
            value = value.checked_shr(32).unwrap_or(0);
            left -= size;
        }
    }

    fn transfer(&mut self, address: u32, size: u8, value: Option<u32>, out: &mut Vec<u8>) {
        self.flush(out);
        let begins = self.next_data != Some(address);
        let sent =
            (begins && self.config().data_addresses()).then(|| match std::mem::take(&mut self.data_sync) {
                true => DataAddress::full(address, false),
                false => self.encoder.data_address(address, false),
            });
        let packet = match value {
            Some(value) if self.config().data_values() => {
                Packet::NormalData { begins, address: sent, value: Some(DataValue::new(value)) }
            }
            None if self.config().data_values() => Packet::ValueNotTraced { begins, address: sent },
            _ => Packet::NormalData { begins, address: sent, value: None },
        };
        self.write(packet, out);
        self.next_data = Some(address.wrapping_add(size.into()));
    }
}
