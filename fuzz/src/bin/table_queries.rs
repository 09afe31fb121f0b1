//! Any text as a filter over each table, and as a piece of a capture.

#![no_main]

use backsight_table::{Error, Filter, Piece, Table};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for table in Table::ALL {
        match Filter::parse(table, text) {
            Ok(filter) => assert_eq!(filter.text(), text),
            Err(Error::Filter { at, .. }) => assert!(at <= text.len()),
            Err(other) => panic!("{other}"),
        }
    }
    if let Ok(piece) = Piece::from_json(text) {
        assert_eq!(Piece::from_json(&piece.to_json()).expect("a piece"), piece);
    }
});
