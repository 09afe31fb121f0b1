//! Any bytes as a file of retired instructions: read in one go it says what it says item by item, and what can be read can
//! be written again.

#![no_main]

use backsight_run::retired::{RetiredReader, RetiredWriter};

const MOST: usize = 100_000;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(reader) = RetiredReader::new(data) else { return };
    // A few bytes can stand for many instructions: enough is enough.
    let items: Vec<_> = reader.map_while(Result::ok).take(MOST).collect();
    let mut in_one_go = Vec::new();
    let mut reader = RetiredReader::new(data).expect("the same header");
    // What is wrong with the file shows in both ways at the same item.
    let _ = reader.read_some(MOST, &mut |item| in_one_go.push(item));
    assert_eq!(in_one_go, items);
    let mut writer = RetiredWriter::new(Vec::new(), backsight_core::Isa::Rv64).expect("memory");
    for item in &items {
        writer.push(item).expect("an item that was read");
    }
    let file = writer.finish().expect("memory");
    let again: Result<Vec<_>, _> = RetiredReader::new(&file[..]).expect("a file of our own").collect();
    assert_eq!(again.expect("a file of our own"), items);
});
