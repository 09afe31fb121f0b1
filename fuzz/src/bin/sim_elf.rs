//! Any bytes as a program, and any bytes as the code of a program.

#![no_main]

use backsight_sim::{Options, Simulator, Streams};

fn options() -> Options {
    Options {
        streams: Streams::none(),
        host_files: false,
        memory: 1 << 22,
        instructions: 20_000,
        ..Options::default()
    }
}

/// A program that consists of this code.
fn program(code: &[u8]) -> Vec<u8> {
    let mut file = b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xF3\0\x01\0\0\0".to_vec();
    for value in [0x1_0078u64, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    let size = 120 + code.len() as u64;
    for value in [0, 0x1_0000, 0x1_0000, size, size, 0x1000] {
        file.extend(u64::to_le_bytes(value));
    }
    file.extend(code);
    file
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for file in [data, &program(data)] {
        let Ok(mut simulator) = Simulator::load(file, options()) else { continue };
        simulator.run_with_accesses(&mut |_| {});
        assert!(simulator.retired() <= 20_000);
    }
});
