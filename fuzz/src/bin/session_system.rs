//! Descriptions of systems, and sessions on what they describe.
#![no_main]

use backsight_session::{Request, Session, System, output};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(system) = System::parse("system.ini", &String::from_utf8_lossy(data)) else { return };
    let request = Request { return_stack: true, memory: Some((0x1000, 0x1000)), ..Request::default() };
    for request in [Request::default(), request] {
        if let Ok(session) = Session::new(&system, &request) {
            assert!(!session.units.is_empty());
            let _ = (output::words(&session), output::package(&session));
        }
    }
});
