//! Records there and back in every configuration.

use super::layout::cut;
use super::*;
use crate::etrace::{DataOptions, Params};
use crate::ingress::{DataAccess, DataRecord, Dtype};
use backsight_testing::Random;
use std::vec::Vec;

fn configurations() -> Vec<(Params, DataOptions)> {
    let mut all = Vec::new();
    for data_width in [8, 16, 32, 64, 128] {
        for dtype_width in 1..=4 {
            for bits in 0..128u8 {
                let bit = |n: u8| bits >> n & 1;
                let params = Params {
                    data_width,
                    dtype_width,
                    data_split: bit(0),
                    data_diff_width: 1 + bit(1),
                    mmacas_ext: bit(2),
                    lrid_width: 5,
                    daddress_width: if bit(3) == 1 { 64 } else { 32 },
                    ..Params::default()
                };
                let options = DataOptions {
                    no_address: bit(4) == 1,
                    no_data: bit(5) == 1,
                    full_address: bit(6) == 1,
                    full_data: bit(6) == 1 && dtype_width == 2,
                };
                all.push((params, options));
            }
        }
    }
    all
}

fn small_or_large(random: &mut Random) -> u128 {
    let wide = u128::from(random.next()) << 64 | u128::from(random.next());
    match random.below(4) {
        0 => random.below(256).into(),
        1 => (random.below(256) as u128).wrapping_sub(128),
        2 => wide,
        _ => wide >> 90,
    }
}

/// An access as a decoder would report it if nothing were left out.
fn access(layout: &Layout, base: u64, random: &mut Random) -> DataAccess {
    let dtype = loop {
        if let Some(dtype) = Dtype::from_code(random.below(16) as u8) {
            break dtype;
        }
    };
    let csr = dtype.is_csr();
    let size = if csr { layout.csr_size() } else { random.below(layout.largest_size() as u64 + 1) as u8 };
    let value = |random: &mut Random| cut(small_or_large(random), size);
    let near = base.wrapping_add(random.below(64)) & (u64::MAX >> (64 - layout.address_width));
    let aligned = near >> size << size;
    let address = match dtype {
        _ if csr => random.below(4096),
        Dtype::Load | Dtype::Store if random.below(4) == 0 => near,
        _ => aligned,
    };
    let split = layout.is_split() && (dtype == Dtype::Load || (8..15).contains(&(dtype as u8)));
    DataAccess {
        dtype,
        multiple: dtype.is_plain() && layout.has_multiple() && random.below(2) == 0,
        size,
        address: Some(address),
        operand: Some(value(random)),
        data: Some(value(random)),
        lrid: split.then(|| random.below(32) as u16),
    }
}

/// What is left of an access in this layout.
fn seen(mut access: DataAccess, layout: &Layout) -> DataAccess {
    let form = layout.form(access.dtype, access.lrid.is_some(), access.address.unwrap()).unwrap();
    access.address = access.address.filter(|_| form.address);
    access.operand = access.operand.filter(|_| form.operand);
    access.data = access.data.filter(|_| form.data);
    access
}

#[test]
fn records_come_back_in_every_configuration() {
    let mut random = Random(3);
    let (mut sent, mut differential) = (0, 0);
    for (params, options) in configurations() {
        let (mut encoder, mut decoder) = (Encoder::new(&params, &options), Decoder::new(&params, &options));
        let layout = *encoder.layout();
        let mut requests: Vec<(u16, bool, u8)> = Vec::new();
        let base = random.next();
        for step in 0..40 {
            if step % 17 == 16 {
                encoder.synchronise();
                decoder.synchronise();
            }
            let record = match requests.first().copied().filter(|_| random.below(3) == 0) {
                Some((lrid, atomic, size)) => {
                    requests.remove(0);
                    let data = cut(small_or_large(&mut random), size);
                    let data = (random.below(5) != 0).then_some(data);
                    DataRecord::Response { lrid, atomic: atomic && params.mmacas_ext == 0, size, data }
                }
                None => DataRecord::Access(access(&layout, base, &mut random)),
            };
            if let DataRecord::Access(DataAccess { lrid: Some(lrid), .. }) = record
                && requests.iter().any(|&(taken, ..)| taken == lrid)
            {
                continue;
            }
            let Some((packet, payload)) = encoder.push(&record) else { continue };
            let expected = match record {
                DataRecord::Access(access) => {
                    if let Some(lrid) = access.lrid {
                        requests.push((lrid, access.dtype != Dtype::Load, access.size));
                    }
                    DataRecord::Access(seen(access, &layout))
                }
                response => response,
            };
            sent += 1;
            differential += usize::from(matches!(packet, Packet::Access(a) if a.coding != Coding::default()));
            assert_eq!(decoder.decode(&payload), Ok(packet), "{params:?} {options:?}");
            assert_eq!(decoder.resolve(&packet), Ok(expected), "{params:?} {options:?} {packet:x?}");
        }
    }
    assert!(sent > 30_000 && differential > 5_000, "{sent} {differential}");
}

#[test]
fn a_load_is_sent_field_by_field() {
    let params = Params { data_width: 32, daddress_width: 32, ..Params::default() };
    let mut encoder = Encoder::new(&params, &DataOptions::default());
    let load = |address, data| {
        DataRecord::Access(DataAccess {
            size: 2,
            address: Some(address),
            data: Some(data),
            ..DataAccess::default()
        })
    };
    // format 00, size 10, diff 00, data_len 00, data 00010010, address 0x1000 >> 2
    let (_, payload) = encoder.push(&load(0x1000, 0x12)).unwrap();
    assert_eq!(payload.as_slice(), [0b0000_1000, 0x12, 0x00, 0x04]);
    // format 00, size 10, diff 10, data_len 00, data 00010011, address +1
    let (_, payload) = encoder.push(&load(0x1004, 0x13)).unwrap();
    assert_eq!(payload.as_slice(), [0b0010_1000, 0x13, 0x01]);
}

#[test]
fn ratified_and_draft_packets_differ_in_their_formats() {
    let base = Params { data_width: 64, dtype_width: 4, ..Params::default() };
    let swap = DataRecord::Access(DataAccess {
        dtype: Dtype::Xor,
        size: 3,
        address: Some(0x80),
        operand: Some(1),
        data: Some(2),
        ..DataAccess::default()
    });
    let options = DataOptions::default();
    // format 110, subtype 100, size 11; diff 00, op_len 000, operand 1, data_len 000, data 2, address 0x10
    let (_, ratified) = Encoder::new(&base, &options).push(&swap).unwrap();
    assert_eq!(ratified[0], 0b1110_0110);
    // format 10, subformat 1100, size 11
    let draft = Params { mmacas_ext: 1, ..base };
    let (_, draft) = Encoder::new(&draft, &options).push(&swap).unwrap();
    assert_eq!(draft[0], 0b1111_0010);
    assert_eq!(ratified[1..], draft[1..]);
}

#[test]
fn csr_numbers_that_cannot_be_written_have_no_operand() {
    let params = Params { data_width: 64, dtype_width: 3, ..Params::default() };
    let read = |csr| {
        let access = DataAccess {
            dtype: Dtype::CsrReadSet,
            address: Some(csr),
            operand: Some(0),
            data: Some(7),
            ..DataAccess::default()
        };
        let (packet, _) =
            Encoder::new(&params, &DataOptions::default()).push(&DataRecord::Access(access)).unwrap();
        let Packet::Access(packet) = packet else { panic!() };
        packet.operand
    };
    assert_eq!((read(0xC00), read(0x300)), (None, Some(0)));
}

#[test]
fn a_difference_without_a_reference_and_a_response_without_a_request_are_named() {
    let params = Params { data_width: 32, dtype_width: 4, data_split: 1, lrid_width: 4, ..Params::default() };
    let options = DataOptions::default();
    let mut encoder = Encoder::new(&params, &options);
    let store = |data| {
        let address = Some(0x1000);
        DataRecord::Access(DataAccess {
            dtype: Dtype::Store,
            size: 2,
            address,
            data: Some(data),
            ..DataAccess::default()
        })
    };
    encoder.push(&store(0x1234_5678)).unwrap();
    let (packet, _) = encoder.push(&store(0x1234_5679)).unwrap();
    let mut decoder = Decoder::new(&params, &options);
    assert_eq!(decoder.resolve(&packet), Err(BadData::NoReference));
    let response = DataRecord::Response { lrid: 9, atomic: true, size: 2, data: Some(1) };
    let (_, payload) = encoder.push(&response).unwrap();
    assert_eq!(decoder.decode(&payload), Err(BadData::UnknownRequest(9)));
    assert_eq!(decoder.decode(&[]), Err(BadData::Empty));
}

#[test]
fn any_bytes_are_a_packet_or_a_named_fault() {
    let mut random = Random(11);
    let mut decoded = 0;
    for (params, options) in configurations() {
        let mut decoder = Decoder::new(&params, &options);
        for _ in 0..20 {
            let bytes: Vec<u8> = (0..1 + random.below(12)).map(|_| random.next() as u8).collect();
            let Ok(packet) = decoder.decode(&bytes) else { continue };
            decoded += 1;
            let again = packet.encode(&Layout::new(&params, &options)).unwrap();
            assert_eq!(decoder.decode(&again), Ok(packet), "{params:?} {options:?}");
            let _ = decoder.resolve(&packet);
        }
    }
    assert!(decoded > 5_000, "{decoded}");
}
