//! The crate `riscv-etrace`, driven as its own examples drive it.

use backsight_core::{Execution, Retired};
use backsight_riscv::etrace::Params;
use backsight_riscv::ingress::{Block, Itype};
use riscv_etrace::binary::{self, Adaptable};
use riscv_etrace::config::Parameters;
use riscv_etrace::generator::hart2enc::CType;
use riscv_etrace::generator::{self, step};
use riscv_etrace::instruction::{Instruction, Kind, Size, base};
use riscv_etrace::packet::{self, payload::InstructionTrace};
use riscv_etrace::types::{Context, Privilege};

use crate::independent_step::{parameters, trace};
use crate::program::Program;
use crate::workload::Steps;

/// A step with everything worked out before, so that handing it over costs nothing.
#[derive(Clone, Copy)]
pub struct Ready {
    address: u64,
    last_offset: u64,
    kind: step::Kind,
    privilege: Privilege,
}

impl step::Step for Ready {
    fn address(&self) -> u64 {
        self.address
    }
    fn last_offset(&self) -> u64 {
        self.last_offset
    }
    fn kind(&self) -> step::Kind {
        self.kind
    }
    fn ctype(&self) -> CType {
        CType::Unreported
    }
    fn context(&self) -> Context {
        Context { privilege: self.privilege, context: 0 }
    }
}

pub fn ready(block: &Block) -> Ready {
    let size = if block.ilastsize == 0 { Size::Compressed } else { Size::Normal };
    let itype = (block.itype as u8).try_into().expect("itype");
    let sijump = block.sijump && block.itype != Itype::Return;
    Ready {
        address: block.iaddr,
        last_offset: block.last() - block.iaddr,
        kind: step::Kind::from_hart(itype, 0, 0, size, true, sijump),
        privilege: block.privilege.try_into().expect("privilege"),
    }
}

/// Writes the payloads of all steps, with the length before each.
fn generate(steps: impl Iterator<Item = Ready>, params: &Parameters, bytes: &mut Vec<u8>) {
    let builder = packet::builder().with_params(params).with_compression(true);
    let mut emit = |payload: InstructionTrace| {
        let mut buffer = [0; 64];
        let mut encoder = builder.encoder(&mut buffer);
        encoder.encode(&packet::smi::Packet::new(2, 0, payload)).expect("payload");
        let length = 64 - encoder.uncommitted();
        bytes.extend_from_slice(&buffer[..length]);
    };
    let mut generator: generator::Generator<Ready> =
        generator::builder().with_params(params).build().expect("generator");
    emit(generator.begin_qualification(Default::default(), Default::default()).expect("options").into());
    for step in steps {
        generator.process_step(step, None).for_each(|payload| emit(payload.expect("payload")));
    }
    generator.end_qualification(true).for_each(|payload| emit(payload.expect("payload")));
}

pub fn encode_ready(steps: &Steps<Ready>, params: &Params, bytes: &mut Vec<u8>) {
    generate(steps.iter().copied(), &parameters(params), bytes);
}

pub fn encode_executed(steps: &Steps<Execution>, level: u8, params: &Params, bytes: &mut Vec<u8>) {
    let privilege = level.try_into().expect("privilege");
    let step = |retired: &Retired| {
        let opcode = retired.opcode.to_le_bytes();
        let (instruction, _) =
            Instruction::<Option<Kind>>::extract(&opcode, &base::Set::Rv64I).expect("instruction");
        let kind = step::Kind::from_instruction(instruction, retired.taken, None);
        Ready { address: retired.address.0, last_offset: 0, kind, privilege }
    };
    let steps = steps.iter().filter_map(|item| match item {
        Execution::Instruction(retired) => Some(step(retired)),
        _ => None,
    });
    generate(steps, &parameters(params), bytes);
}

/// Gives the address of every instruction.
pub fn decode<'a>(
    code: &Program,
    payloads: impl Iterator<Item = &'a [u8]>,
    params: &Params,
    sink: impl FnMut(u64),
) {
    let segments: Vec<_> = code
        .0
        .iter()
        .map(|(start, bytes)| binary::from_segment(bytes, base::Set::Rv64I).with_offset(*start).boxed())
        .collect();
    trace(binary::Multi::from(segments), payloads, &parameters(params), sink);
}
