//! Any names, cut at zero bytes: every format of profiles stays well-formed, text has nothing harmful in it, and captures
//! with such names are written so that they can be read.
#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use backsight::core::{Printable, is_harmful};
use backsight_capture::folder::Memory;
use backsight_capture::{Capture, Format};
use backsight_profile::export::{ExportError, ExportOptions, FORMATS};
use backsight_profile::{CountOptions, Profile, count, report};

#[path = "../../../crates/backsight-profile/tests/exports/well_formed.rs"]
mod well_formed;

fn capture() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/captures/calls-riscv64"))
}

/// A small profile with everything in it.
fn profile() -> &'static Profile {
    static PROFILE: OnceLock<Profile> = OnceLock::new();
    PROFILE.get_or_init(|| {
        let capture = backsight::Capture::open(capture()).expect("the capture of the tests");
        let options = CountOptions { timeline: 100, paths: 2, ..CountOptions::default() };
        count(&capture, capture.execution(), &options).expect("a profile").0
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let names: Vec<_> = data.split(|&byte| byte == 0).map(|name| String::from_utf8_lossy(name)).collect();
    let mut number = 0;
    let mut next = || {
        number += 1;
        names[(number - 1) % names.len()].clone().into_owned()
    };
    for name in &names {
        assert!(!Printable(name).to_string().chars().any(is_harmful));
    }
    let hostile = profile().renamed(&mut |_: &str| next());
    let options = ExportOptions { title: next(), ..ExportOptions::default() };
    // One format an input, so that many names are tried in a second.
    let format = &FORMATS[data.len() % FORMATS.len()];
    let mut out = Vec::new();
    match format.write(&hostile, &options, &mut out) {
        Ok(()) => well_formed::check(format.name, &out),
        Err(ExportError::Missing(_)) => {}
        Err(ExportError::Io(error)) => panic!("{error}"),
    }
    let mut page = Vec::new();
    let options = report::ReportOptions { title: next(), ..report::ReportOptions::default() };
    report::write(&hostile, &options, &mut page).expect("memory takes everything");
    assert_eq!(String::from_utf8(page).expect("text").matches("</script").count(), 1);

    let mut described = Capture::open(capture()).expect("the capture of the tests");
    described.buffers.iter_mut().for_each(|buffer| buffer.name = next());
    described.sources.iter_mut().for_each(|source| source.name = next());
    described.cores.iter_mut().for_each(|core| core.name = next());
    described.images.iter_mut().for_each(|image| image.name = next());
    described.description = Some(next());
    for format in [Format::Package, Format::Snapshot] {
        let mut files = Memory(Default::default());
        if described.write(format, &mut files).is_ok() {
            Capture::from_folder(Arc::new(files), "written").expect("what was written is read");
        }
    }
});
