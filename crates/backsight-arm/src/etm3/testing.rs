//! Packets by chance, for tests.

use backsight_core::{Address, Isa};
use proptest::prelude::*;

use super::*;
use crate::etm::AddressEncoding;
use crate::etm::testing::{Draw, aligned, isa};

/// Configurations by chance.
pub fn configuration() -> impl Strategy<Value = Config> {
    (any::<u32>(), 0..6_u32, any::<u32>(), any::<bool>(), 0..8_u32).prop_map(
        |(cr, minor, ccer, alternative, rare)| {
            let mut config = Config::default();
            let idr = 0x200 | minor << 4 | u32::from(alternative) << 20;
            // Data-only mode is rare, so that most configurations have instructions.
            let cr = if rare == 0 { cr } else { cr & !(1 << 20) };
            config.registers = Registers { cr, idr, ccer, traceidr: 0 };
            config
        },
    )
}

fn i_sync(encoder: &Encoder, a: u64, b: u64, c: u64, context_id: Option<u32>) -> Packet {
    let is_data_only = encoder.config().data_only();
    let isa = if is_data_only { Isa::A32 } else { isa(b) };
    let state = State { alt_isa: isa == Isa::ThumbEe, non_secure: c & 1 != 0, hyp: c & 2 != 0 };
    let address = (!is_data_only).then(|| Address(aligned(a, isa).0 & !1));
    let mut sync = ISync {
        address,
        isa,
        reason: Reason::from_bits((c >> 8) as u8),
        state,
        context_id,
        cycles: (c & 4 != 0).then_some((c >> 32) as u32),
        next: None,
    };
    if c & 0x30 == 0 && !is_data_only {
        sync.next = Some(encoder.next_instruction(&sync, aligned(a ^ b & 0xFFFF, isa)));
    }
    Packet::ISync(sync)
}

fn branch(encoder: &Encoder, a: u64, b: u64, c: u64) -> Packet {
    let isa = isa(b);
    let state = State { alt_isa: isa == Isa::ThumbEe, non_secure: c & 1 != 0, hyp: c & 2 != 0 };
    let is_long = c & 0x40 != 0;
    let (hyp, exception) = if is_long { (state.hyp, (c >> 8) as u16 & 0x1FF) } else { (false, 14) };
    let information = Information {
        state: State { hyp, ..state },
        exception,
        cancels: c & 0x80 != 0,
        is_long,
        resume: (c & 0x30 == 0).then_some((c >> 20) as u8 & 0xF),
    };
    let said = c & 4 != 0 || encoder.must_say_alt_isa(isa);
    let mut branch = encoder.branch_to(aligned(a, isa), isa, said.then_some(information));
    let is_original = encoder.config().address_encoding() == AddressEncoding::Original;
    if !said && isa == Isa::A32 && branch.bytes == 5 && is_original && c & 0x400 != 0 {
        branch.early = Some(EarlyException { code: (c >> 12) as u8 & 7, cancels: c & 0x800 != 0 });
    }
    Packet::Branch(branch)
}

fn p_header(config: &Config, a: u64, b: u64) -> Packet {
    // Every header that is not reserved, by chance.
    let header = 0x80 | (a as u8 & 0x7E);
    let header = PHeader::read(header, config).or_else(|| PHeader::read(0x80 | (b as u8 & 0x7C), config));
    Packet::PHeader(header.unwrap())
}

fn data(encoder: &Encoder, a: u64, b: u64, c: u64) -> Packet {
    let config = encoder.config();
    let begins = c & 1 != 0;
    let address = (a >> (b & 31)) as u32;
    let address = (begins && config.data_addresses()).then(|| encoder.data_address(address, c & 2 != 0));
    let value = DataValue::new((b >> (c >> 3 & 63)) as u32);
    let tag = 1 + (c >> 16) as u8 % 3;
    let has_values = config.data_values() || config.coprocessor_transfers();
    match c >> 8 & 7 {
        _ if !config.data_trace() => Packet::Ignore,
        0 => Packet::ValueNotTraced { begins, address },
        1 => Packet::DataSuppressed,
        2 if has_values => Packet::StoreFailed,
        3 if has_values => Packet::OutOfOrderPlaceholder { tag, begins, address },
        4 if has_values => Packet::OutOfOrderData { tag, value },
        _ => Packet::NormalData {
            begins,
            address,
            value: (config.data_values() || value.bytes > 0 && c & 4 != 0).then_some(value),
        },
    }
}

/// A packet that the encoder can write next.
pub fn packet(encoder: &Encoder, (kind, a, b, c): Draw) -> Packet {
    let config = encoder.config();
    let context_bits = 8 * u32::from(config.context_id_bytes());
    let context_id = (context_bits > 0).then(|| (c & ((1 << context_bits) - 1)) as u32);
    match kind % 16 {
        0 => Packet::Async,
        1 | 2 => i_sync(encoder, a, b, c, context_id),
        3..=5 => p_header(config, a, b),
        6..=8 => branch(encoder, a, b, c),
        9..=12 => data(encoder, a, b, c),
        13 if config.minor() >= 5 => {
            let code = config.timestamp_code();
            let value = (a >> (b & 63)) & if code.is_wide { u64::MAX } else { (1 << 48) - 1 };
            let timestamp = if c & 1 == 0 { encoder.timestamp(value) } else { encoder.full_timestamp(value) };
            Packet::Timestamp(Timestamp { clock_changed: c & 2 != 0, ..timestamp })
        }
        14 => match context_id {
            Some(id) => Packet::ContextId(id),
            None => Packet::CycleCount((a >> (b & 31)) as u32),
        },
        _ => match b % 6 {
            0 if config.minor() >= 5 => Packet::Vmid(a as u8),
            1 if config.minor() >= 4 => Packet::ExceptionExit,
            2 if config.minor() >= 4 => Packet::ExceptionEntry,
            3 => Packet::CycleCount((a >> (b & 31)) as u32),
            4 => Packet::Ignore,
            _ => Packet::Trigger,
        },
    }
}
