//! Any bytes as the records, notes, cycles and accesses of each scheme, over a small program; and as what it is executed
//! again from.

#![no_main]

use backsight_core::{Execution, Input, Isa};
use backsight_squeeze::data::accesses::DataScheme;
use backsight_squeeze::data::unified::UnifiedUnpacker;
use backsight_squeeze::{Chunk, Code, PRESETS, Records, Section, Unpacker};

/// A loop with a call, a return, an indirect jump, a load and a conditional branch, several times.
fn program() -> Vec<Section> {
    let opcodes: [u32; 8] = [
        0x0015_0513, // addi a0, a0, 1
        0xFEB5_1EE3, // bne a0, a1, -4
        0x0080_00EF, // jal ra, +8
        0x0005_0067, // jr a0
        0x0005_3603, // ld a2, 0(a0)
        0x0005_00E7, // jalr ra, a0
        0x0000_8067, // ret
        0xFE00_0AE3, // beq x0, x0, -12
    ];
    let bytes = opcodes.iter().cycle().take(64).flat_map(|opcode| opcode.to_le_bytes()).collect();
    vec![Section { address: 0x1000, bytes }]
}

/// Executes the program from a chunk, with registers that are known.
fn execute(chunk: &Chunk, scheme: DataScheme, sink: &mut impl FnMut(Execution)) {
    let mut unpacker = UnifiedUnpacker::new(program(), scheme.values());
    let numbers = (1..64).chain([4096 + 3]);
    numbers.for_each(|number| {
        let value = 0x1000 + u64::from(number % 64) * 4;
        unpacker.see(&Execution::Input(Input::Register { number, value }));
    });
    let _ = unpacker.unpack(chunk, sink);
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [which, count, notes, cycles, accesses, rest @ ..] = data else { return };
    let (_, scheme) = PRESETS[usize::from(*which) % PRESETS.len()];
    let (notes, rest) = rest.split_at((*notes as usize % 32).min(rest.len()));
    let (cycles, rest) = rest.split_at((*cycles as usize % 32).min(rest.len()));
    let (accesses, bytes) = rest.split_at((*accesses as usize % 32).min(rest.len()));
    let records =
        Records { bytes: bytes.to_vec(), bits: bytes.len() as u64 * 8, instructions: u64::from(*count) * 16 };
    let (notes, cycles, accesses) = (notes.to_vec(), cycles.to_vec(), accesses.to_vec());
    let chunk = Chunk { code: Vec::new(), notes, cycles, accesses, records };
    let data = DataScheme { sets: 4, cache: 1024, replay: *which >= 0x80 };
    let mut given = 0u64;
    if data.replay {
        execute(&chunk, data, &mut |_| given += 1);
    } else {
        let mut unpacker = Unpacker::new(&scheme, data, Code::new(Isa::Rv64, program()));
        let _ = unpacker.unpack(&chunk, &mut |_| given += 1);
    }
    // Each instruction may have an access.
    assert!(given <= 2 * u64::from(*count) * 16 + 64, "no more than there should be");
});
