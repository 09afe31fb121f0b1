//! What captures say of their sources, understood.

use std::sync::Arc;

use backsight::core::{Address, AddressSpace};
use backsight::description::Format;
use backsight::image::{Code as _, Image};
use backsight::{Capture, Error, OpenOptions, Source};
use backsight_testing::repository;

/// A folder on disk that goes away again.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, files: &[(&str, &str)]) -> Result<Capture, Error> {
        for (name, text) in files {
            std::fs::write(self.0.join(name), text).unwrap();
        }
        Capture::open(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SNAPSHOT: &str =
    "[snapshot]\nversion=1.0\n[device_list]\ndevice0=etm.ini\n[trace]\nmetadata=trace.ini\n";
const DEVICE: &str = "[device]\nname=ETM_0\nclass=trace_source\ntype=ETM4\n[regs]\nTRCTRACEIDR=0x10\nTRCCONFIGR=1\n\
    TRCIDR0=0x28000EA1\nTRCIDR2=0x488\n";
const TRACE: &str = "[trace_buffers]\nbuffers=buffer0,\n[buffer0]\nname=ETB_0\nfile=data.bin\nformat=coresight\n\
    [source_buffers]\nETM_0=ETB_0\n";

fn snapshot(name: &str, device: &str, trace: &str) -> Capture {
    let scratch = Scratch::new(name);
    let files = [("snapshot.ini", SNAPSHOT), ("etm.ini", device), ("trace.ini", trace), ("data.bin", "")];
    scratch.write(&files).unwrap_or_else(|error| panic!("{error}"))
}

fn warnings(name: &str, device: &str) -> String {
    snapshot(name, device, TRACE).warnings().join("\n")
}

fn package(name: &str, metadata: &str) -> Result<Capture, Error> {
    let contents = "[trace]\nmetadata=trace.ini\nbuffer0=data\n";
    Scratch::new(name).write(&[("contents.ini", contents), ("trace.ini", metadata), ("data", "")])
}

const METADATA: &str = "[buffer]\nformat: coresight\n[trace_16]\nformat: ETM4.2\nTRCIDR0: 0x28000EA1\n";

#[test]
fn doubts_about_registers_are_warnings() {
    assert_eq!(warnings("sound", DEVICE), "");
    assert!(warnings("type", &DEVICE.replace("=ETM4", "=ETM9")).contains("type `ETM9` is not known"));
    assert!(warnings("missing", &DEVICE.replace("TRCIDR2=0x488", "")).contains("TRCIDR2 is not given"));
    assert!(warnings("text", &DEVICE.replace("=0x488", "=lots")).contains("TRCIDR2 is `lots`"));
    assert!(warnings("id", &DEVICE.replace("TRCTRACEIDR=0x10\n", "")).contains("its trace ID is not known"));
}

#[test]
fn the_second_stream_of_a_trace_unit_is_its_data_trace() {
    let capture = snapshot("streams", DEVICE, &format!("{TRACE}ETM_0(stream:1)=ETB_0\n"));
    let sources: Vec<_> = capture.buffers()[0]
        .sources()
        .map(|source| (source.protocol().map(|names| names.name), source.id().get(), source.is_decoded()))
        .collect();
    assert_eq!(sources, [(Some("etm4"), 0x10, true), (Some("etm4-data"), 0x11, true)]);
}

#[test]
fn options_win_over_registers_with_a_warning() {
    let capture = package("contradiction", &format!("{METADATA}TRCCONFIGR: 1\ncyclecount: 1\n")).unwrap();
    assert!(capture.buffers()[0].sources().all(|source| source.counts_cycles()));
    assert!(
        capture.warnings()[0].contains("cyclecount=1 contradicts TRCCONFIGR=0x1"),
        "{:?}",
        capture.warnings()
    );
}

#[test]
fn options_that_make_no_sense_are_refused_with_file_and_line() {
    let error = package("nonsense", &format!("{METADATA}context_id: 12\n")).unwrap_err().to_string();
    assert!(error.contains("trace.ini:6: `context_id` is `12`: expected 0 or 32"), "{error}");
}

#[test]
fn bare_files_refuse_settings_that_make_no_sense() {
    let open =
        |setting: &str| OpenOptions::new().protocol("etm4").framing("tpiu-hsync").config(setting).live();
    let refused = |setting: &str| match open(setting) {
        Err(Error::Misuse(what)) => what,
        other => panic!("{setting}: {other:?}"),
    };
    assert!(refused("flavour=1").contains("no such option"));
    assert!(refused("TRCWHAT=1").contains("no such register"));
    assert!(refused("TRCCONFIGR=x").contains("expected a 32-bit number"));
    assert!(open("TRCCONFIGR=0x1811").is_ok());
    let baked = OpenOptions::new().protocol("etm4").framing("baked").live().unwrap_err().to_string();
    assert!(baked.contains("baked") && baked.contains("coresight"), "{baked}");
    assert!(OpenOptions::new().live().is_err());
    assert!(OpenOptions::new().protocol("etm2").live().unwrap_err().to_string().contains("etm4"));
}

#[test]
fn settings_override_what_a_package_says() {
    let first = repository().join("testdata/captures/first");
    let open = |setting: &str| OpenOptions::new().config(setting).open(&first);
    let counts = |capture: &Capture| capture.buffers()[0].sources().any(|source| source.counts_cycles());
    assert!(!counts(&open("return_stack=1").unwrap()));
    assert!(counts(&open("cyclecount=1").unwrap()));
    assert!(counts(&open("0x10:cyclecount=1").unwrap()));
    assert!(counts(&open("TRCCONFIGR=0x11").unwrap()));
    assert!(open("0x11:cyclecount=1").unwrap_err().to_string().contains("no source has the ID 0x11"));
    assert!(open("flavour=1").unwrap_err().to_string().contains("no such option"));
    assert!(open("cyclecount=maybe").unwrap_err().to_string().contains("expected"));
}

/// What both formats can say of sources, as text.
fn described(capture: &Capture) -> Vec<String> {
    capture.buffers().iter().flat_map(|buffer| buffer.sources()).map(|source| format!("{source:?}")).collect()
}

#[test]
fn every_source_of_the_corpus_is_the_same_after_it_was_written() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    let scratch = Scratch::new("corpus");
    for entry in std::fs::read_dir(corpus.join("opencsd")).unwrap() {
        let folder = entry.unwrap().path();
        let capture = Capture::open(folder.join("capture")).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        for (first, second) in [(Format::Snapshot, Format::Package), (Format::Package, Format::Snapshot)] {
            let path = scratch.0.join(format!("{name}-{first:?}"));
            capture.save(&path, first).unwrap();
            let once = Capture::open(&path).unwrap();
            assert_eq!(described(&once), described(&capture), "{name} as {first:?}");
            let path = scratch.0.join(format!("{name}-{first:?}-{second:?}"));
            once.save(&path, second).unwrap();
            assert_eq!(
                described(&Capture::open(&path).unwrap()),
                described(&capture),
                "{name}, {second:?} last"
            );
        }
    }
}

#[test]
fn bytes_readers_and_files_are_the_same() {
    let path = repository().join("testdata/captures/first/trace.bin");
    let bytes: Arc<[u8]> = std::fs::read(&path).unwrap().into();
    let options = || OpenOptions::new().protocol("etm4").framing("coresight").config("context_id=32");
    let packets = |capture: &Capture| capture.packets().count().unwrap().packets();
    let expected = packets(&options().open(&path).unwrap());
    assert!(expected > 100);
    assert_eq!(packets(&options().bytes(Arc::clone(&bytes)).unwrap()), expected);
    let capture = options().reader(std::io::Cursor::new(bytes)).unwrap();
    assert_eq!(packets(&capture), expected);
    let again = capture.packets().count().unwrap_err().to_string();
    assert!(again.contains("read before"), "{again}");
}

/// A capture of four cores with memory. A dump is a letter, which stands for its contents, and an address.
fn cores_with_memory(name: &str, dumps: [&str; 4]) -> Capture {
    let scratch = Scratch::new(name);
    let mut files = vec![("data.bin".to_owned(), String::new())];
    let (mut devices, mut buffers, mut cores) = (String::new(), String::new(), String::new());
    for (number, dumps) in dumps.into_iter().enumerate() {
        let mut core = format!("[device]\nname=cpu_{number}\nclass=core\ntype=Cortex-A53\n");
        for (index, dump) in dumps.split_whitespace().enumerate() {
            let (letter, address) = dump.split_at(1);
            core += &format!("[dump{index}]\nfile={letter}.bin\naddress={address}\n");
            files.push((format!("{letter}.bin"), letter.repeat(8)));
        }
        let unit =
            DEVICE.replace("ETM_0", &format!("ETM_{number}")).replace("0x10", &format!("{:#x}", 16 + number));
        files.extend([(format!("cpu_{number}.ini"), core), (format!("etm_{number}.ini"), unit)]);
        devices += &format!("cpu{number}=cpu_{number}.ini\netm{number}=etm_{number}.ini\n");
        buffers += &format!("ETM_{number}=ETB_0\n");
        cores += &format!("cpu_{number}=ETM_{number}\n");
    }
    files.push(("snapshot.ini".to_owned(), SNAPSHOT.replace("device0=etm.ini\n", &devices)));
    let trace = TRACE.replace("ETM_0=ETB_0\n", &format!("{buffers}[core_trace_sources]\n{cores}"));
    files.push(("trace.ini".to_owned(), trace));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let capture = scratch.write(&files).unwrap_or_else(|error| panic!("{error}"));
    // Files are mapped before they are removed.
    capture.code().unwrap_or_else(|error| panic!("{error}"));
    capture
}

/// What each core has at some addresses: a letter, or a point for nothing.
fn memory_of_cores(capture: &Capture, addresses: &[u64]) -> Vec<String> {
    let code = capture.code().unwrap();
    let sources: Vec<_> = capture.buffers()[0].sources().collect();
    let at = |source: &Source, address: &u64| {
        let bytes = code.of(source).bytes_at(AddressSpace::ANY, Address(*address));
        bytes.and_then(|bytes| bytes.first()).map_or('.', |&byte| char::from(byte))
    };
    sources.iter().map(|source| addresses.iter().map(|address| at(source, address)).collect()).collect()
}

/// Which cores share what they see: those with the same number.
fn views_of_cores(capture: &Capture) -> Vec<usize> {
    let code = capture.code().unwrap();
    let images: Vec<_> = capture.buffers()[0].sources().map(|source| code.of(source)).collect();
    let first = |image: &Image| images.iter().position(|&other| std::ptr::eq(other, image)).unwrap();
    images.iter().map(|image| first(image)).collect()
}

#[test]
fn cores_that_see_the_same_memory_share_it() {
    let all = cores_with_memory("same", ["a0x1000 b0x2000"; 4]);
    assert_eq!(views_of_cores(&all), [0, 0, 0, 0]);
    assert_eq!(memory_of_cores(&all, &[0x1000, 0x2007, 0x3000]), ["ab."; 4]);
    let moved = cores_with_memory("moved", ["a0x1000 a0x2000", "a0x1000", "a0x2000", "a0x2000 a0x1000"]);
    assert_eq!(memory_of_cores(&moved, &[0x1000, 0x2000]), ["aa"; 4]);
    // Others have something else there, or something more: those see something else.
    let some = cores_with_memory("some", ["a0x1000", "c0x1000", "a0x1000", "a0x1000 b0x2000"]);
    assert_eq!(memory_of_cores(&some, &[0x1000, 0x2000]), ["ab", "cb", "ab", "ab"]);
    let views = views_of_cores(&some);
    assert_eq!((views[0], views[1], views[2]), (0, 1, 0));
}

#[test]
fn of_memory_that_overlaps_a_core_sees_its_own_and_the_latest() {
    // The same dumps, in another order: what lies over what is not the same.
    let orders =
        cores_with_memory("orders", ["a0x1000 b0x1004", "b0x1004 a0x1000", "a0x1000 b0x1004", "c0x2000"]);
    assert_eq!(memory_of_cores(&orders, &[0x1003, 0x1004, 0x1008, 0x2000]), ["abbc", "aabc", "abbc", "abbc"]);
    assert_eq!(views_of_cores(&orders)[..3], [0, 1, 0]);
    // What comes again is hidden only by what came in between if that is later.
    let again = cores_with_memory(
        "again",
        ["a0x1000 b0x1000 a0x1000", "b0x1000 a0x1000", "b0x1000", "a0x1000 b0x1000"],
    );
    assert_eq!(memory_of_cores(&again, &[0x1000]), ["a", "a", "b", "b"]);
}
