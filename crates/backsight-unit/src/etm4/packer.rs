//! From trace elements to packets: what the unit has to say in as few bytes as the protocol allows.

use super::atoms::AtomBuffer;
use super::port::{Output, Port};
use backsight_arm::etm4::{AddressForm, Atoms, Config, Context, Exception, Is, Packet, Q, TraceInfo};
use backsight_core::{Address, Isa};

/// Greatest cycle count that three bytes of a format 1 packet hold.
const LARGEST_COUNT: u64 = (1 << 21) - 1;

/// A place to continue at, as an address packet tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub address: Address,
    pub isa: Isa,
}

impl Location {
    pub(super) fn is(self) -> Is {
        if self.isa == Isa::T32 { Is::Is1 } else { Is::Is0 }
    }

    /// The address without the bits that packets have no room for.
    fn aligned(self) -> Address {
        Address(self.address.0 & if self.isa == Isa::T32 { !1 } else { !3 })
    }
}

/// An exception that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub number: u32,
    pub back_to: Location,
    /// The preferred return address is also where the branch before went, which no packet reported yet.
    pub at_target: bool,
}

pub(super) struct Packer {
    pub(super) port: Port,
    atoms: AtomBuffer,
    /// Instruction set flag of the last address: what a decoder reads a context by.
    last_is: Is,
    /// P0 elements in the stream that are not resolved.
    depth: u32,
    max_speculation: u32,
    threshold: u32,
    largest_cycles: u64,
    commit_mode1: bool,
}

impl Packer {
    pub(super) fn new(config: &Config) -> Self {
        let threshold = config.registers.ccctlr & 0xFFF;
        let counter = (1u64 << config.cycle_counter_bits().min(32)) - 1;
        Self {
            port: Port::new(config),
            atoms: AtomBuffer::default(),
            last_is: Is::Is0,
            depth: 0,
            max_speculation: config.max_speculation(),
            threshold,
            largest_cycles: counter.min(LARGEST_COUNT),
            commit_mode1: config.commit_mode1(),
        }
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Can a context be reported alone? In AArch32 a decoder takes the instruction set from the last address, which a
    /// branch may have left behind.
    pub(super) fn reads_as(&self, place: Location) -> bool {
        place.isa == Isa::A64 || self.last_is == place.is()
    }

    pub(super) fn max_speculation(&self) -> u32 {
        self.max_speculation
    }

    /// An atom.
    #[inline]
    pub(super) fn atom(&mut self, executed: bool, out: &mut impl Output) {
        self.atoms.push(executed);
        if self.atoms.is_full() {
            self.write_atoms(out);
        }
    }

    fn write_atoms(&mut self, out: &mut impl Output) {
        if let Some(atoms) = self.atoms.take() {
            self.deeper(u32::from(atoms.count));
            self.port.write_atoms(atoms, out);
        }
    }

    /// More P0 elements are in the stream; the oldest beyond the maximum depth are committed by that.
    fn deeper(&mut self, elements: u32) {
        self.depth = (self.depth + elements).min(self.max_speculation);
    }

    /// Writes all atoms that wait.
    pub(super) fn flush(&mut self, out: &mut impl Output) {
        while !self.atoms.is_empty() {
            self.write_atoms(out);
        }
    }

    /// A packet that is no P0 element.
    pub(super) fn put(&mut self, packet: Packet, out: &mut impl Output) {
        self.flush(out);
        self.port.write(packet, out);
    }

    /// A packet that is one P0 element.
    pub(super) fn put_p0(&mut self, packet: Packet, out: &mut impl Output) {
        self.put(packet, out);
        self.deeper(1);
    }

    /// Where execution continues, and the context there if it is to be reported.
    pub(super) fn address(&mut self, place: Location, context: Option<Context>, out: &mut impl Output) {
        self.flush(out);
        self.last_is = place.is();
        let Some(context) = context else {
            let packet = self.port.encoder.compress(place.aligned(), place.is());
            return self.port.write(Packet::Address(packet), out);
        };
        let packet = self.port.encoder.compress_long(place.aligned(), place.is());
        self.port.write(Packet::AddressContext(packet, context), out);
    }

    /// An exception with its preferred return address.
    pub(super) fn exception(&mut self, taken: Taken, context: Option<Context>, out: &mut impl Output) {
        let address = if taken.at_target { 0b10 } else { 0b01 };
        let number = (taken.number & 0x3FF) as u16;
        self.put(Packet::Exception(Exception { number, address, fault_pending: false }), out);
        self.address(taken.back_to, context, out);
        self.deeper(1);
    }

    /// A taken P0 instruction by its address, which also stands for the not executed ones before it. False if it
    /// would stand for fewer than `fewest` of them.
    pub(super) fn source_address(&mut self, at: Location, fewest: u32, out: &mut impl Output) -> bool {
        let replaced = self.atoms.trailing_not_executed();
        if replaced < fewest {
            return false;
        }
        self.atoms.drop_newest(replaced);
        self.flush(out);
        let packet = self.port.encoder.compress(at.aligned(), at.is());
        self.port.write(Packet::SourceAddress(packet), out);
        self.deeper(1);
        true
    }

    /// A number of instructions, then `next`.
    pub(super) fn q(
        &mut self,
        count: Option<u32>,
        next: Location,
        context: Option<Context>,
        out: &mut impl Output,
    ) {
        self.flush(out);
        let packet = self.port.encoder.compress(next.aligned(), next.is());
        let own = count.is_some() && context.is_none() && packet.form != AddressForm::Long64;
        self.port.write(Packet::Q(Q { count, address: own.then_some(packet) }), out);
        self.last_is = next.is();
        if !own {
            self.address(next, context, out);
        }
        self.deeper(1);
    }

    /// The oldest `count` elements were executed.
    pub(super) fn commit(&mut self, count: u32, out: &mut impl Output) {
        self.flush(out);
        let count = count.min(self.depth);
        if count > 0 {
            self.port.write(Packet::Commit { count }, out);
            self.depth -= count;
        }
    }

    /// The newest `count` elements never happened; with `mispredict` the atom before them went the other way.
    /// Waiting atoms travel in the packet where a format for it exists.
    pub(super) fn cancel(&mut self, count: u32, mispredict: bool, out: &mut impl Output) {
        let carried = if mispredict { self.carried(count) } else { Atoms::NONE };
        self.atoms.drop_newest(u32::from(carried.count));
        self.flush(out);
        self.deeper(u32::from(carried.count));
        let packet = match count {
            0 if mispredict => Packet::Mispredict(carried),
            1 if mispredict => Packet::CancelF2(carried),
            2..=5 if mispredict => Packet::CancelF3 { atom: carried.count == 1, count: count as u8 },
            _ => Packet::CancelF1 { count, mispredict },
        };
        self.port.write(packet, out);
        self.depth = self.depth.saturating_sub(count);
    }

    /// The atoms that a cancel packet of `count` can carry. They must fit below the maximum depth: whether a
    /// commit that they imply comes before the cancel is nowhere said.
    fn carried(&self, count: u32) -> Atoms {
        let one = |bits| Atoms { bits, count: 1 };
        let carried = match (count, self.atoms.newest(2), self.atoms.newest(1)) {
            (0 | 1, Some(0b11), _) => Atoms { bits: 0b11, count: 2 },
            (0..=5, _, Some(1)) => one(1),
            (0 | 1, _, Some(0)) => one(0),
            _ => Atoms::NONE,
        };
        let waiting = self.atoms.len();
        if self.depth + waiting <= self.max_speculation { carried } else { Atoms::NONE }
    }

    /// Alignment, and all that a decoder needs to begin: what it remembers is forgotten on both sides.
    pub(super) fn synchronise(&mut self, info: u32, cycle_counting: bool, out: &mut impl Output) {
        self.put(Packet::Async, out);
        self.port.synchronised();
        self.last_is = Is::Is0;
        let speculation = self.depth;
        let (cyct, threshold) = if cycle_counting { (1 << 3, self.threshold) } else { (0, 0) };
        let spec = if speculation > 0 { 1 << 2 } else { 0 };
        let sections = 1 | spec | cyct;
        self.port.write(
            Packet::TraceInfo(TraceInfo { sections, info, speculation, threshold, ..TraceInfo::default() }),
            out,
        );
    }

    /// The decoder lost its place: nothing that it knew is left.
    pub(super) fn overflow(&mut self, out: &mut impl Output) {
        self.put(Packet::Overflow, out);
        self.depth = 0;
    }

    /// Global time.
    pub(super) fn timestamp(&mut self, value: u64, cycles: Option<u64>, out: &mut impl Output) {
        self.flush(out);
        let packet = self.port.encoder.timestamp(value, self.countable(cycles));
        self.port.write(Packet::Timestamp(packet), out);
    }

    /// A number of cycles, unless it is more than the counter of the unit can hold.
    fn countable(&self, cycles: Option<u64>) -> Option<u32> {
        cycles.filter(|&cycles| cycles <= self.largest_cycles).map(|cycles| cycles as u32)
    }

    /// Is it time to count?
    #[inline]
    pub(super) fn counts(&self, cycles: u64) -> bool {
        cycles >= u64::from(self.threshold)
    }

    /// Cycles since the last count, `None` if they are not known. Everything traced is committed first: by the count
    /// itself in commit mode 0, by a packet of its own in mode 1.
    pub(super) fn cycle_count(&mut self, cycles: Option<u64>, out: &mut impl Output) {
        self.flush(out);
        if self.commit_mode1 {
            self.commit(self.depth, out);
        }
        let commit = if self.commit_mode1 { 0 } else { self.depth };
        if let Some(packet) = self.port.encoder.cycle_count(commit, self.countable(cycles)) {
            self.port.write(Packet::CycleCount(packet), out);
            self.depth -= commit;
        }
    }
}
