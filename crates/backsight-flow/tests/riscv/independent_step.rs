//! The independent crate `riscv-etrace`, driven with our blocks and payloads.

use std::num::NonZeroU8;

use backsight_riscv::etrace::Params;
use backsight_riscv::ingress::{Block, Ctype, Itype};
use riscv_etrace::binary::Binary;
use riscv_etrace::config::Parameters;
use riscv_etrace::generator::hart2enc::CType;
use riscv_etrace::generator::{self, step};
use riscv_etrace::instruction::{self, Size};
use riscv_etrace::tracer::{self, Tracer, item};
use riscv_etrace::types::stack::StaticStack;
use riscv_etrace::{packet, types};

/// A block as that crate wants it.
#[derive(Clone, Copy, Debug)]
pub struct Step(pub Block);

impl step::Step for Step {
    fn address(&self) -> u64 {
        if self.0.iretire == 0 { self.0.end() } else { self.0.iaddr }
    }

    fn last_offset(&self) -> u64 {
        self.0.last().wrapping_sub(self.0.iaddr)
    }

    fn kind(&self) -> step::Kind {
        let size = if self.0.ilastsize == 0 { Size::Compressed } else { Size::Normal };
        let itype = (self.0.itype as u8).try_into().expect("itype");
        let sijump = self.0.sijump && !matches!(self.0.itype, Itype::Return);
        step::Kind::from_hart(itype, self.0.cause as u16, self.0.tval, size, self.0.iretire > 0, sijump)
    }

    fn ctype(&self) -> CType {
        match self.0.ctype {
            Ctype::Unreported => CType::Unreported,
            Ctype::Imprecise => CType::Imprecisely,
            Ctype::Precise => CType::Precisely,
            Ctype::AsynchronousDiscontinuity => CType::AsyncDiscon,
        }
    }

    fn timestamp(&self) -> Option<u64> {
        Some(self.0.time)
    }

    fn context(&self) -> types::Context {
        let privilege = self.0.privilege.try_into().expect("privilege");
        types::Context { privilege, context: self.0.context }
    }
}

/// The same parameters in that crate's words.
pub fn parameters(params: &Params) -> Parameters {
    let width = |width: u8| NonZeroU8::new(width).expect("width");
    Parameters {
        cache_size_p: params.cache_size,
        call_counter_size_p: params.call_counter_size,
        context_width_p: width(params.context_width),
        time_width_p: width(params.time_width),
        ecause_width_p: width(params.ecause_width),
        f0s_width_p: params.f0s_width,
        iaddress_lsb_p: params.iaddress_lsb,
        iaddress_width_p: width(params.iaddress_width),
        nocontext_p: params.nocontext != 0,
        notime_p: params.notime != 0,
        privilege_width_p: width(params.privilege_width),
        return_stack_size_p: params.return_stack_size,
        sijump_p: params.sijump != 0,
    }
}

/// Payloads that its generator makes.
pub fn generate(steps: &[Step], params: &Parameters, full_address: bool, mut sink: impl FnMut(&[u8])) {
    let builder = packet::builder().with_params(params).with_compression(true);
    let mut emit = |payload: packet::payload::InstructionTrace| {
        let mut buffer = [0; 64];
        let mut encoder = builder.encoder(&mut buffer);
        encoder.encode(&packet::smi::Packet::new(2, 0, payload)).expect("payload");
        let left = encoder.uncommitted();
        // A header byte, then the payload.
        sink(&buffer[1..64 - left]);
    };
    let mut generator: generator::Generator<Step> =
        generator::builder().with_params(params).build().expect("generator");
    let options = packet::unit::ReferenceIOptions { full_address, ..Default::default() };
    let start = generator.begin_qualification(options, Default::default()).expect("options");
    emit(start.into());
    for step in steps {
        generator.process_step(*step, None).for_each(|payload| emit(payload.expect("payload")));
    }
    generator.end_qualification(true).for_each(|payload| emit(payload.expect("payload")));
}

/// Addresses that its tracer gives for our payloads.
pub fn trace<'a, B>(
    binary: B,
    payloads: impl Iterator<Item = &'a [u8]>,
    params: &Parameters,
    mut sink: impl FnMut(u64),
) where
    B: Binary<Option<instruction::Kind>>,
    B::Error: std::fmt::Debug,
{
    let mut tracer: Tracer<_, StaticStack<16>> =
        tracer::builder().with_binary(binary).with_params(params).build().expect("tracer");
    let mut decoder = packet::builder().with_params(params).decoder(&[]);
    for payload in payloads {
        decoder.reset(payload);
        let payload = decoder.decode_payload().expect("payload");
        tracer.process_te_inst(&payload).expect("packet");
        for item in tracer.by_ref() {
            let Ok(item) = item else { return };
            if let item::Kind::Regular(_) = item.kind() {
                sink(item.pc());
            }
        }
    }
}
