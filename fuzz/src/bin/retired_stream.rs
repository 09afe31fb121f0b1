//! Any bytes as a file of retired instructions; and what can be read can be written again.

#![no_main]

use backsight_run::retired::{RetiredReader, RetiredWriter};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(reader) = RetiredReader::new(data) else { return };
    // A few bytes can stand for many instructions: enough is enough.
    let items: Vec<_> = reader.map_while(Result::ok).take(100_000).collect();
    let mut writer = RetiredWriter::new(Vec::new(), backsight_core::Isa::Rv64).expect("memory");
    for item in &items {
        writer.push(item).expect("an item that was read");
    }
    let file = writer.finish().expect("memory");
    let again: Result<Vec<_>, _> = RetiredReader::new(&file[..]).expect("a file of our own").collect();
    assert_eq!(again.expect("a file of our own"), items);
});
