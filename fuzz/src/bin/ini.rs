//! INI files of both dialects, and event logs.
#![no_main]

use backsight_capture::events::EventLog;
use backsight_capture::ini::{Dialect, Ini};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for dialect in [Dialect::Snapshot, Dialect::Package] {
        if let Ok(ini) = Ini::parse("file.ini", &text, dialect) {
            for section in &ini.sections {
                let _ = ini.refuse_duplicates(std::iter::once(section), str::to_owned);
                section.entries.iter().for_each(|entry| drop(ini.number(entry)));
            }
        }
    }
    for log in [text.to_string(), format!("%system-event-log version=1\n{text}")] {
        if let Ok(log) = EventLog::parse("log", &log) {
            let again = EventLog::parse("log", &log.to_string()).expect("what is written can be read");
            assert_eq!(again.problems, []);
            assert_eq!(again.records.len(), log.records.len());
        }
    }
});
