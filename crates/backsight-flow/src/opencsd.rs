//! Events as the lines that users of OpenCSD know.
//!
//! Each event is one line, `OCSD_GEN_TRC_ELEM_` with a name and arguments. Signs of a wrong image have none.

use std::fmt;

use backsight_core::{AddressSpace, Context, Isa, Privilege, Security};
use backsight_isa::Class;

use crate::opencsd_messages::{hardware, is_listed, software, source_time};
use crate::{Event, NoSync, Range, TraceOn, Transaction};

/// The line for an event, without its index and trace ID; `None` where that listing has no line for it.
/// `cycle_counts` says whether cycle counting was switched on: timestamps then show a count too.
pub fn element(event: &Event, cycle_counts: bool) -> Option<Element<'_>> {
    let listed = !matches!(
        event,
        Event::Mismatch { .. }
            | Event::Condition { .. }
            | Event::Access(_)
            | Event::AccessesLost
            | Event::UncountedLoop { .. }
            | Event::PathUnknown { start: None, .. }
            | Event::NoSync(NoSync::Initial | NoSync::WrongImage)
    );
    let listed = listed && is_listed(event);
    listed.then_some(Element { event, cycle_counts, cycles: None })
}

/// The lines of one source, with the cycle counts of ETMv3 and PTM packets in the lines of what else a packet says.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Cycle counting was switched on: timestamps then show a count too.
    pub cycle_counts: bool,
    /// Lines of exceptions do not say where they return to.
    pub hides_return_addresses: bool,
    /// A cycle count that may belong to what follows, and the index of its packet.
    held: Option<(u64, Option<u32>)>,
}

impl Lines {
    /// Lines with counts at timestamps, or without where no cycles were counted.
    pub const fn new(cycle_counts: bool) -> Self {
        Self { cycle_counts, hides_return_addresses: false, held: None }
    }

    /// Takes the next event, whose packet has this index; gives the lines that are ready, each with its index.
    pub fn push(&mut self, index: u64, event: &Event, each: &mut dyn FnMut(u64, Element<'_>)) {
        let without_return;
        let event = match *event {
            Event::Exception { cause, is_branch_target, fault_pending, value, .. }
                if self.hides_return_addresses =>
            {
                without_return =
                    Event::Exception { cause, return_address: None, is_branch_target, fault_pending, value };
                &without_return
            }
            _ => event,
        };
        let Some(element) = element(event, self.cycle_counts) else { return };
        let cycles = match self.held {
            Some((of, cycles)) if of == index && shows_cycles(event) => {
                self.held = None;
                cycles
            }
            _ => {
                self.finish(each);
                None
            }
        };
        match event {
            Event::CycleCount(cycles) => self.held = Some((index, *cycles)),
            _ => each(index, Element { cycles, ..element }),
        }
    }

    /// Gives the line of a count that belongs to nothing else.
    pub fn finish(&mut self, each: &mut dyn FnMut(u64, Element<'_>)) {
        if let Some((index, cycles)) = self.held.take() {
            let event = Event::CycleCount(cycles);
            each(index, Element { event: &event, cycle_counts: self.cycle_counts, cycles: None });
        }
    }
}

/// Does the line of this event show the cycles that its packet counts?
const fn shows_cycles(event: &Event) -> bool {
    matches!(
        event,
        Event::Range(_)
            | Event::TraceOn(_)
            | Event::Context(..)
            | Event::Exception { .. }
            | Event::AddressUnknown
    )
}

/// One line; displays itself.
#[derive(Clone, Copy, Debug)]
pub struct Element<'e> {
    event: &'e Event,
    cycle_counts: bool,
    cycles: Option<u32>,
}

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OCSD_GEN_TRC_ELEM_")?;
        match *self.event {
            Event::StartOfTrace => f.write_str("NO_SYNC( [init-decoder])"),
            Event::NoSync(why) => write!(f, "NO_SYNC( [{}])", no_sync(why)),
            Event::TraceOn(why) => write!(f, "TRACE_ON( [{}]{})", trace_on(why), Cycles(self.cycles)),
            Event::Context(context, isa) => pe_context(&context, isa, self.cycles, f),
            Event::Range(range) => instr_range(&range, self.cycles, f),
            Event::PathUnknown { start, next, instructions } => {
                let start = start.unwrap_or(next);
                write!(f, "I_RANGE_NOPATH(first {start}:[next {next}] num_i({instructions}) )")
            }
            Event::AddressUnknown => write!(f, "ADDR_UNKNOWN({})", Cycles(self.cycles)),
            Event::NoMemory { address, space } => {
                write!(f, "ADDR_NACC( {address}; Memspace [{:#x}:{}] )", space.view(), memory_space(space))
            }
            Event::Exception { cause, return_address, is_branch_target, .. } => {
                let number = cause.number();
                f.write_str("EXCEPTION(")?;
                if let Some(address) = return_address {
                    write!(f, "pref ret addr:{address}")?;
                    f.write_str(if is_branch_target { " [addr also prev br tgt]; " } else { "; " })?;
                }
                write!(f, "excep num (0x{number:02x}) {})", Cycles(self.cycles))
            }
            Event::ExceptionReturn => f.write_str("EXCEPTION_RET()"),
            Event::Timestamp { value, cycles } => {
                write!(f, "TIMESTAMP( [ TS=0x{value:012x}]; ")?;
                if self.cycle_counts {
                    write!(f, " [CC={}]; ", cycles.unwrap_or(0))?;
                }
                f.write_str(")")
            }
            Event::CycleCount(cycles) => write!(f, "CYCLE_COUNT( [CC={}]; )", cycles.unwrap_or(0)),
            Event::Trigger => f.write_str("EVENT( Trigger; )"),
            Event::UnitEvents(events) => write!(f, "EVENT( Numbered:{events}; )"),
            Event::TimestampMarker => f.write_str("SYNC_MARKER( [Timestamp marker(0x00000000)])"),
            Event::Transaction(step) => write!(f, "MEMTRANS( {})", transaction(step)),
            Event::Software(message) => software(&message, f),
            Event::Hardware(event) => hardware(&event, f),
            Event::SourceTime(time) => source_time(&time, f),
            Event::EndOfTrace { after_overflow } => {
                let why = if after_overflow { "overflow" } else { "end-of-trace" };
                write!(f, "EO_TRACE( [{why}])")
            }
            Event::Mismatch { .. }
            | Event::Condition { .. }
            | Event::Access(_)
            | Event::AccessesLost
            | Event::UncountedLoop { .. } => f.write_str("CUSTOM()"),
        }
    }
}

/// The cycles up to an element.
struct Cycles(Option<u32>);

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |cycles| write!(f, " [CC={cycles}]; "))
    }
}

fn no_sync(why: NoSync) -> &'static str {
    match why {
        NoSync::Initial => "init-decoder",
        NoSync::BadPacket | NoSync::WrongImage => "bad-packet",
        NoSync::Discard => "discard",
        NoSync::Overflow => "overflow",
    }
}

fn trace_on(why: TraceOn) -> &'static str {
    match why {
        TraceOn::Begin => "begin or filter",
        TraceOn::Overflow => "overflow",
        TraceOn::DebugRestart => "debug restart",
    }
}

fn transaction(step: Transaction) -> &'static str {
    match step {
        Transaction::Initial => "Init",
        Transaction::Start => "Start",
        Transaction::Commit => "Commit",
        Transaction::Failure => "Fail",
    }
}

fn memory_space(space: AddressSpace) -> &'static str {
    space.name().unwrap_or("Any")
}

fn pe_context(context: &Context, isa: Isa, cycles: Option<u32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let security = match context.privilege.security() {
        Security::Secure => "S",
        Security::NonSecure => "N",
        Security::Root => "Root",
        Security::Realm => "Realm",
    };
    let bits = if context.wide { 64 } else { 32 };
    write!(f, "PE_CONTEXT((ISA={}) ", isa_name(isa))?;
    match context.privilege {
        // Without an exception level, Hyp mode stands beside the security state.
        Privilege::Armv7 { hyp, .. } => write!(f, "{security}; {}", if hyp { "Hyp; " } else { "" })?,
        _ => write!(f, "EL{}{security}; ", context.level())?,
    }
    write!(f, "{bits}-bit; ")?;
    if let Some(vmid) = context.vmid {
        write!(f, "VMID={vmid:#x}; ")?;
    }
    if let Some(id) = context.context_id {
        write!(f, "CTXTID={id:#x}; ")?;
    }
    write!(f, "{})", Cycles(cycles))
}

fn isa_name(isa: Isa) -> &'static str {
    match isa {
        Isa::ThumbEe => "TEE",
        Isa::Jazelle => "Jaz",
        isa => isa.name(),
    }
}

fn instr_range(range: &Range, cycles: Option<u32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Range { start, end, instructions, isa, last_size, .. } = range;
    write!(f, "INSTR_RANGE(exec range={start}:[{end}] num_i({instructions}) last_sz({last_size}) ")?;
    let isa = isa_name(*isa);
    write!(f, "(ISA={isa}) {} {}", if range.executed { 'E' } else { 'N' }, class(range.class))?;
    f.write_str(sub_class(range))?;
    f.write_str(if range.flags.conditional && !range.flags.unmarked { " <cond>" } else { "" })?;
    write!(f, "{})", Cycles(cycles))
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Other | Class::DataBarrier => "---",
        Class::DirectBranch => "BR ",
        Class::IndirectBranch => "iBR ",
        Class::Isb => "ISB ",
        Class::Wait => "WFI.WFE ",
        Class::TransactionStart => "TSTART ",
    }
}

fn sub_class(range: &Range) -> &'static str {
    let a64 = range.isa == Isa::A64;
    match range.flags {
        flags if flags.link => "b+link ",
        flags if flags.returns && a64 => "A64:ret ",
        flags if flags.returns => "V7:impl ret ",
        flags if flags.exception_return && a64 => "A64:eret ",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Symptom;
    use backsight_core::Address;
    use backsight_core::Cause;

    fn line(event: Event) -> String {
        let line = element(&event, true).map(|element| element.to_string()).unwrap_or_default();
        line.trim_start_matches("OCSD_GEN_TRC_ELEM_").to_owned()
    }

    #[test]
    fn elements_that_no_capture_has_are_spelt_as_documented() {
        let at = Address(0x1000);
        assert_eq!(
            line(Event::PathUnknown { start: Some(at), next: Address(0x2000), instructions: 3 }),
            "I_RANGE_NOPATH(first 0x1000:[next 0x2000] num_i(3) )"
        );
        assert_eq!(
            line(Event::NoMemory { address: at, space: AddressSpace::ROOT }),
            "ADDR_NACC( 0x1000; Memspace [0x80:Root] )"
        );
        assert_eq!(
            line(Event::Timestamp { value: 0x6f_d7a0, cycles: Some(9) }),
            "TIMESTAMP( [ TS=0x0000006fd7a0];  [CC=9]; )"
        );
        assert_eq!(line(Event::CycleCount(None)), "CYCLE_COUNT( [CC=0]; )");
        assert_eq!(line(Event::TraceOn(TraceOn::Overflow)), "TRACE_ON( [overflow])");
        assert_eq!(line(Event::EndOfTrace { after_overflow: true }), "EO_TRACE( [overflow])");
    }

    #[test]
    fn an_exception_without_a_return_address_names_its_number_only() {
        let exception = |return_address, is_branch_target| Event::Exception {
            cause: Cause::Arm(3),
            return_address,
            is_branch_target,
            fault_pending: false,
            value: 0,
        };
        assert_eq!(line(exception(None, false)), "EXCEPTION(excep num (0x03) )");
        assert_eq!(
            line(exception(Some(Address(0x10)), true)),
            "EXCEPTION(pref ret addr:0x10 [addr also prev br tgt]; excep num (0x03) )"
        );
    }

    #[test]
    fn cycles_up_to_an_element_stand_in_it() {
        let with = |event: Event| {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for (index, event) in
                [(3, Event::CycleCount(Some(8))), (4, Event::CycleCount(Some(5))), (4, event)]
            {
                lines.push(index, &event, &mut |index, line| seen.push((index, line.to_string())));
            }
            assert_eq!(seen[0], (3, "OCSD_GEN_TRC_ELEM_CYCLE_COUNT( [CC=8]; )".to_owned()));
            assert_eq!((seen.len(), seen[1].0), (2, 4));
            seen[1].1.clone()
        };
        let context = Context::armv7(Security::NonSecure, true);
        let lines = [
            (Event::TraceOn(TraceOn::Begin), "OCSD_GEN_TRC_ELEM_TRACE_ON( [begin or filter] [CC=5]; )"),
            (
                Event::Context(context, Isa::ThumbEe),
                "OCSD_GEN_TRC_ELEM_PE_CONTEXT((ISA=TEE) N; Hyp; 32-bit;  [CC=5]; )",
            ),
        ];
        for (event, expected) in lines {
            assert_eq!(with(event), expected);
        }
        assert_eq!(line(Event::Trigger), "EVENT( Trigger; )");
    }

    #[test]
    fn signs_of_a_wrong_image_have_no_line() {
        let symptom = Symptom::AddressDiffers;
        assert!(element(&Event::Mismatch { symptom, address: Address(0) }, false).is_none());
        assert!(element(&Event::NoSync(NoSync::WrongImage), false).is_none());
    }
}
