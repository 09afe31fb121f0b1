//! The examples that the text works out, bit for bit.

use backsight_core::Isa;
use backsight_squeeze::bits::BitReader;
use backsight_squeeze::dmtf::{Dmtf, DmtfCompressor};
use backsight_squeeze::sdc::{Sdc, SdcCompressor};
use backsight_squeeze::tmbp::{Tmbp, TmbpCompressor, TmbpDecompressor};
use backsight_squeeze::{Block, Code, Compressor, Decompressor, Kind, Path, Records, Section};

fn text(records: &Records) -> String {
    let mut bits = BitReader::new(&records.bytes, records.bits);
    (0..records.bits).map(|_| if bits.take(1).unwrap() == 1 { '1' } else { '0' }).collect()
}

fn code(address: u64, opcodes: &[u32]) -> Code {
    let bytes = opcodes.iter().flat_map(|opcode| opcode.to_le_bytes()).collect();
    Code::new(Isa::Rv64, vec![Section { address, bytes }])
}

const NOP: u32 = 0x0000_0013;
/// jr a0
const JUMP_REGISTER: u32 = 0x0005_0067;

/// A stream that ends in an indirect branch, so that the next start cannot be inferred.
fn stream(start: u64, length: u32, next: u64) -> Block {
    let end = start + 4 * u64::from(length);
    let kind = Kind::Indirect;
    Block { start, last: end - 4, end, next, count: length, kind, taken: false, fresh: false }
}

/// Figure 4.5: bDMTF with 64 and 8 entries, streams A B C A A B A B A C.
#[test]
fn two_tables_in_series() {
    let mut code = code(0x1000, &[JUMP_REGISTER; 3]);
    let mut compressor = DmtfCompressor::new(Dmtf { address_bits: 32, ..Dmtf::basic(64, 8) });
    let address = |name: char| 0x1000 + 4 * (name as u64 - 'A' as u64);
    let names = "ABCAABABAC";
    for (name, next) in names.chars().zip(names.chars().skip(1).chain(Some('A'))) {
        compressor.push(&stream(address(name), 1, address(next)), &mut code);
    }
    let records = compressor.flush(&mut code);
    let descriptor = |name| format!("{:032b}00000001", address(name));
    let expected = [
        format!("1111111111{}", descriptor('A')),
        format!("1111111111{}", descriptor('B')),
        format!("1111111111{}", descriptor('C')),
        "1111000010".into(),
        "1111000000".into(),
        "1001".into(),
        "1111000001".into(),
        "0".into(),
        "0".into(),
        "1001".into(),
    ];
    assert_eq!(text(&records), expected.concat());
    assert_eq!(records.bits, 190);
}

/// Figure 4.13: bSDC-LSP of 16 sets of 4, the stream (0x020001f4, 9) again and again.
#[test]
fn a_cache_of_streams_and_a_predictor() {
    let mut opcodes = [NOP; 9];
    opcodes[8] = JUMP_REGISTER;
    let mut code = code(0x0200_01F4, &opcodes);
    let mut compressor = SdcCompressor::new(Sdc { address_bits: 32, ..Sdc::basic(16, 4) });
    let mut push = |compressor: &mut SdcCompressor| {
        compressor.push(&stream(0x0200_01F4, 9, 0x0200_01F4), &mut code);
        compressor.flush(&mut code)
    };
    let records: Vec<_> = (0..99).map(|_| push(&mut compressor)).collect();
    assert_eq!(text(&records[0]), "00000000000001000000000000000011111010000001001");
    assert_eq!(text(&records[1]), "0011000");
    assert_eq!(text(&records[2]), "0011000");
    assert!(records[3..].iter().all(|record| text(record) == "1"));
    assert_eq!(records.iter().map(|record| record.bits).sum::<u64>(), 157);
}

/// beq with an offset.
fn branch(offset: i32) -> u32 {
    let o = offset as u32;
    0x63 | (o >> 11 & 1) << 7 | (o >> 1 & 15) << 8 | (o >> 5 & 63) << 25 | (o >> 12 & 1) << 31
}

/// j with a small positive offset.
fn jump(offset: u32) -> u32 {
    0x6F | (offset >> 1 & 1023) << 21
}

/// Figure 4.20: blocks W (to Y or X), X, Y, Z (to W); the path WXZ WXZ WYZ, with W predicted not taken and Z taken.
#[test]
fn a_predictor_in_the_trace_module() {
    const W: u64 = 0x1000;
    const X: u64 = W + 8;
    const Y: u64 = X + 8;
    const Z: u64 = Y + 16;
    let opcodes = [NOP, branch((Y - W) as i32 - 4), NOP, jump((Z - X) as u32 - 4), NOP, NOP, NOP, NOP, NOP];
    let opcodes = [&opcodes[..], &[branch(-((Z + 4 - W) as i32)), NOP]].concat();
    let mut code = code(W, &opcodes);
    let block = |start: u64, count: u32, kind, next, fresh| {
        let end = start + 4 * u64::from(count);
        let taken = kind == Kind::Conditional && next != end;
        Block { start, last: end - 4, end, next, count, kind, taken, fresh }
    };
    let x = [block(W, 2, Kind::Conditional, X, false), block(X, 2, Kind::Jump, Z, false)];
    let z = |next| block(Z, 2, Kind::Conditional, next, false);
    // No history: predictions stay with their branches, as the example supposes.
    let build = Tmbp { history_bits: 0, shift: 2, address_bits: 32, ..Tmbp::BIG };
    let mut compressor = TmbpCompressor::new(build);
    let mut learnt = Vec::new();
    for round in 0..8 {
        learnt.push(Block { fresh: round == 0, ..x[0] });
        learnt.extend([x[1], z(W)]);
    }
    learnt.iter().for_each(|block| compressor.push(block, &mut code));
    let before = compressor.flush(&mut code);
    let y = block(Y, 6, Kind::Conditional, Z + 8, false);
    let path = [x[0], x[1], z(W), x[0], x[1], z(W), block(W, 2, Kind::Conditional, Y, false), y];
    path.iter().for_each(|block| compressor.push(block, &mut code));
    let records = compressor.flush(&mut code);
    assert_eq!(text(&records), "01010001");

    let mut decompressor = TmbpDecompressor::new(build);
    decompressor.unpack(&before, &mut code, &mut |_, _| {}).unwrap();
    let mut paths = Vec::new();
    decompressor.unpack(&records, &mut code, &mut |path, _| paths.push(path)).unwrap();
    let expected: Vec<_> = path.iter().map(|block| Path { start: block.start, count: block.count }).collect();
    assert_eq!(paths, expected);
}
