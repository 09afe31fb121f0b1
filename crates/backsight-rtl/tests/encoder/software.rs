//! The software's encoder, fed with the same blocks.

use std::collections::VecDeque;

use backsight_riscv::etrace::{Config, Encoder, Message, Options, Packet, Params};
use backsight_riscv::ingress::Block;
use backsight_unit::cva6;
use backsight_unit::etrace::{Sink, Tracer, UnitConfig};
use backsight_unit::riscv::BlockTracer;
use backsight_unit::riscv::filter::Filtered;

use crate::output::Answer;

/// What an encoder is handed.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    Block(Block),
    Gap,
    End,
}

/// The bytes of a unit that loses nothing.
pub fn bytes(unit: &UnitConfig, inputs: &[Input]) -> Vec<u8> {
    framed(unit, &packets(unit, inputs))
}

/// Its packets.
pub fn packets(unit: &UnitConfig, inputs: &[Input]) -> Vec<Packet> {
    let UnitConfig { params, options, settings, filter, .. } = *unit;
    let mut packets = Vec::new();
    match unit.cva6 {
        None => {
            feed(Filtered::new(Tracer::new(params, options, settings).unwrap(), filter), inputs, &mut packets)
        }
        Some(fidelity) => {
            let settings = cva6::Settings { fidelity, resync: settings.resync, shallow: settings.shallow };
            let tracer = cva6::Tracer::new(params, options, settings).unwrap();
            feed(Filtered::new(tracer, filter), inputs, &mut packets);
        }
    }
    packets
}

fn feed(mut tracer: impl BlockTracer<Packet = Packet>, inputs: &[Input], packets: &mut Vec<Packet>) {
    let mut sink = |packet| packets.push(packet);
    for input in inputs {
        match input {
            Input::Block(block) => tracer.push(block, &mut sink),
            Input::Gap => tracer.unqualified(&mut sink),
            Input::End => tracer.finish(&mut sink),
        }
    }
}

/// Says what the hardware said when it was asked the same.
struct Answers {
    answers: std::cell::RefCell<VecDeque<Answer>>,
    packets: Vec<Packet>,
}

impl Sink for Answers {
    fn packet(&mut self, packet: &Packet, _: &Params, _: &Options) -> bool {
        match self.answers.get_mut().pop_front() {
            Some(Answer::Packet(taken)) => {
                if taken {
                    self.packets.push(*packet);
                }
                taken
            }
            other => panic!("the software sends {packet:?} where the hardware has {other:?}"),
        }
    }

    fn has_room(&self) -> bool {
        match self.answers.borrow_mut().pop_front() {
            Some(Answer::HalfEmpty(room)) => room,
            other => panic!("the software asks for room where the hardware has {other:?}"),
        }
    }
}

/// The bytes of a unit that has room when the hardware had.
pub fn bytes_with_losses(unit: &UnitConfig, inputs: &[Input], answers: &[Answer]) -> Vec<u8> {
    let mut tracer = Tracer::new(unit.params, unit.options, unit.settings).unwrap();
    let answers = answers.iter().copied().collect::<VecDeque<_>>().into();
    let mut sink = Answers { answers, packets: Vec::new() };
    for input in inputs {
        match input {
            Input::Block(block) => tracer.push(block, &mut sink),
            Input::Gap => tracer.unqualified(&mut sink),
            Input::End => tracer.finish(&mut sink),
        }
    }
    assert!(sink.answers.get_mut().is_empty(), "the hardware wanted more packets");
    framed(unit, &sink.packets)
}

/// Packets in frames, with synchronisation sequences between them, as a unit sends them.
fn framed(unit: &UnitConfig, packets: &[Packet]) -> Vec<u8> {
    let UnitConfig { params, options, framing, source, sync_period, .. } = *unit;
    let mut encoder = Encoder::new(&Config { params, options, framing });
    let (mut out, mut since) = (Vec::new(), None);
    for packet in packets {
        let before = out.len();
        if since.is_none_or(|since| sync_period != 0 && since >= sync_period) {
            encoder.synchronise(&mut out);
            since = Some(0);
        }
        let message = Message { source: Some(source), ..(*packet).into() };
        encoder.put(&message, &mut out).expect("it fits");
        since = since.map(|since| since + (out.len() - before) as u64);
    }
    out
}
