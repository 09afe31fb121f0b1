//! What messages, events of hardware and their time say, field by field.

use backsight_core::{Address, Field, Text, Value};
use backsight_riscv::ntrace::in_circuit;

use crate::{
    Channel, DwtEvent, DwtMeaning, HardwareEvent, InCircuitEvent, SoftwareMessage, SourceTime, SystemEvent,
};

use Text::{Hidden, Plain, Within, Words};
use Value::{Absent, Bits, Characters, Decimal, Flag, Hexadecimal, Padded, Word};

type Each<'e> = &'e mut dyn FnMut(Field);

fn channel_fields(channel: Channel, each: Each<'_>) {
    match channel {
        Channel::ExceptionLevel(level) => {
            each(Field::new("level", Decimal(level.into())).text(Within("EL", "")));
        }
        Channel::Port(port) => each(Field::new("port", Decimal(port.into())).text(Within("port ", ""))),
        Channel::Master { master, channel } => {
            each(Field::new("master", Decimal(master.into())).text(Within("master ", "")));
            each(Field::new("channel", Decimal(channel.into())).text(Within("channel ", "")));
        }
        Channel::Unknown => {
            each(Field::new("master", Absent).text(Words("unknown master")));
            each(Field::new("channel", Absent).text(Hidden));
        }
    }
}

fn after_loss(lost: bool) -> Field {
    Field::new("after_loss", Flag(lost)).text(Words("after a loss")).comma()
}

fn time_field(time: Option<u64>) -> Field {
    Field::new("time", time.map_or(Absent, Hexadecimal)).text(Within("at ", "")).comma()
}

pub(crate) fn software_fields(message: &SoftwareMessage, each: Each<'_>) {
    channel_fields(message.channel, each);
    let SoftwareMessage { channel, value, size, .. } = *message;
    if size > 0 {
        each(Field::new("value", Padded(value, message.digits())).text(Plain));
    } else {
        each(Field::new("value", Absent).text(Hidden));
    }
    each(Field::new("size", Decimal(size.into())).text(Hidden));
    if matches!(channel, Channel::ExceptionLevel(_)) {
        return;
    }
    let has_text =
        size > 0 && message.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t'));
    let characters = if has_text { Characters(value, size) } else { Absent };
    each(Field::new("text", characters).text(Within("\"", "\"")));
    each(Field::new("marked", Flag(message.is_marked())).text(Words("marked")).comma());
    each(time_field(message.time()));
    each(after_loss(message.is_after_loss()));
}

pub(crate) fn source_time_fields(time: &SourceTime, each: Each<'_>) {
    match *time {
        SourceTime::Local { delta, total, relation, after_loss: lost } => {
            each(Field::new("ticks", Decimal(delta.into())).text(Within("+", "")));
            each(Field::new("total", Decimal(total)).text(Within("= ", "")));
            each(Field::new("relation", Word(relation.text())).text(Plain).comma());
            each(after_loss(lost));
        }
        SourceTime::Global { value, .. } => {
            each(Field::new("timestamp", Hexadecimal(value)).text(Plain));
            each(Field::new("cycles", Absent).text(Hidden));
        }
    }
}

pub(crate) fn hardware_fields(event: &HardwareEvent, each: Each<'_>) {
    match event {
        HardwareEvent::Dwt(event) => dwt_fields(event, each),
        HardwareEvent::InCircuit(event) => in_circuit_fields(event, each),
        HardwareEvent::System(event) => system_fields(event, each),
    }
}

fn what(words: &'static str) -> Field {
    Field::new("what", Word(words)).text(Plain)
}

fn dwt_fields(event: &DwtEvent, each: Each<'_>) {
    let address =
        |name, value: u32| Field::new(name, Value::Address(Address(value.into()))).text(Within("at ", ""));
    let comparator =
        |number: u8| Field::new("comparator", Decimal(number.into())).text(Within("of comparator ", ""));
    let exception = |number: u16| Field::new("exception", Decimal(number.into())).text(Plain);
    match event.meaning() {
        DwtMeaning::CounterWrap(counters) => {
            each(what("counter wrap"));
            let names = ["cpi", "exc", "sleep", "lsu", "fold", "cyc"];
            for (index, name) in names.into_iter().enumerate() {
                each(Field::new(name, Flag(counters >> index & 1 == 1)).text(Words(name)));
            }
        }
        DwtMeaning::ExceptionEntered(number) => {
            each(what("exception entered"));
            each(exception(number));
        }
        DwtMeaning::ExceptionExited(number) => {
            each(what("exception exited"));
            each(exception(number));
        }
        DwtMeaning::ExceptionReturned(number) => {
            each(what("exception returned to"));
            each(exception(number));
        }
        DwtMeaning::PcSample(pc) => {
            each(what("PC sample"));
            each(address("address", pc));
        }
        DwtMeaning::Sleeping => each(what("PC sample while asleep")),
        DwtMeaning::Prohibited => each(what("PC sample prohibited")),
        DwtMeaning::PmuOverflow(counters) => {
            each(what("PMU overflow"));
            each(Field::new("counters", Bits(counters.into(), 8)).text(Plain));
        }
        DwtMeaning::AccessPc(number, pc) => {
            each(what("access"));
            each(address("address", pc));
            each(comparator(number));
        }
        DwtMeaning::Match(number) => {
            each(what("match"));
            each(comparator(number));
        }
        DwtMeaning::AccessAddress(number, value) => {
            each(what("access to"));
            each(Field::new("data_address", Padded(value.into(), 2 * event.size)).text(Plain));
            each(comparator(number));
        }
        DwtMeaning::AccessValue { comparator: number, write, value } => {
            each(what(if write { "value written" } else { "value read" }));
            each(Field::new("value", Padded(value.into(), 2 * event.size)).text(Plain));
            each(comparator(number));
        }
        DwtMeaning::Reserved => {
            each(what("reserved packet of the DWT"));
            each(Field::new("value", Padded(event.value.into(), 2 * event.size)).text(Plain));
        }
    }
    each(Field::new("source", Decimal(event.id.into())).text(Hidden));
    each(Field::new("size", Decimal(event.size.into())).text(Hidden));
    each(after_loss(event.after_loss));
}

fn in_circuit_fields(event: &InCircuitEvent, each: Each<'_>) {
    each(what(in_circuit::name(event.event)));
    let address = |address: Option<Address>| address.map_or(Absent, Value::Address);
    each(Field::new("address", address(event.address())).text(Within("at ", "")));
    each(Field::new("target", address(event.target())).text(Within("to ", "")));
    if let Some([low, high]) = event.counters() {
        let names = ["count0", "count1", "count2", "count3", "count4", "count5", "count6", "count7"];
        for (index, name) in names.into_iter().enumerate() {
            let counters = if index < 4 { low } else { high };
            each(Field::new(name, Decimal(counters >> (16 * (index % 4)) & 0xFFFF)).text(Plain));
        }
    }
    if let Some(number) = event.number() {
        each(Field::new("number", Decimal(number)).text(Plain));
        if event.event == in_circuit::CONTROL {
            each(Field::new("state", Word(in_circuit::control(number))).text(Within("(", ")")));
        }
    }
}

fn system_fields(event: &SystemEvent, each: Each<'_>) {
    each(what(event.kind.text()));
    each(Field::new("value", Decimal(event.value)).text(Plain));
    channel_fields(event.channel, each);
    each(time_field(event.time()));
}
