//! Programs are recorded, and what their traces tell is what they did, instruction by instruction, in every
//! configuration of the trace units. Those under QEMU need it and the plugin (`tools/qemu-plugin`, built); without them
//! they say so. `tests/ground-truth/run` does the same with programs of Debian.

use crate::support;
use crate::support::{Scratch, assert_same, backsight, opencsd_ranges, program, ranges, record};
use backsight_core::AddressSpace;
use backsight_image::Image;

const ETRACE: [(&str, &[&str]); 14] = [
    ("nothing special", &[]),
    ("implicit return", &["implicit_return=1"]),
    ("implicit return by call counter", &["implicit_return=1", "call_counter_size=6"]),
    ("implicit exception", &["implicit_exception=1"]),
    ("full addresses", &["full_address=1"]),
    ("jump target cache", &["jump_target_cache=1"]),
    ("branch prediction", &["branch_prediction=1"]),
    ("sequential jumps", &["sijump_enable=1"]),
    ("reference framing", &["framing=reference", "resync=0"]),
    ("Siemens framing", &["framing=siemens", "resync=16"]),
    ("a hart that waits for its buffer", &["fifo=64:16", "lossless=1"]),
    (
        "tables that outlive traps",
        &["resync_disabled=1", "implicit_return=1", "jump_target_cache=1", "branch_prediction=1"],
    ),
    ("half of it", &["implicit_return=1", "jump_target_cache=1", "framing=reference"]),
    (
        "everything",
        &[
            "implicit_return=1",
            "implicit_exception=1",
            "jump_target_cache=1",
            "branch_prediction=1",
            "sijump_enable=1",
        ],
    ),
];

const ETM4: [(&str, &[&str]); 12] = [
    ("nothing special", &["TRCCONFIGR=1"]),
    ("return stack", &["return_stack=1"]),
    ("shallow return stack", &["return_stack=1", "return_stack_depth=1", "sync_period=256"]),
    ("branch broadcast", &["branch_broadcast=1", "return_stack=1"]),
    ("cycle counts", &["cyclecount=1", "cycle_threshold=4"]),
    ("cycle counts without commits", &["cyclecount=1", "commopt=0"]),
    ("timestamps and events", &["timestamps=500", "events=700"]),
    ("context IDs", &["context_id=32", "vmid=0"]),
    ("a front end that guesses", &["speculation=40", "return_stack=1"]),
    ("guesses and cycle counts", &["speculation=40", "max_spec=4", "cyclecount=1"]),
    ("frequent synchronisation", &["sync_period=256"]),
    ("everything", &["return_stack=1", "cyclecount=1", "timestamps=900", "events=300", "speculation=20"]),
];

const ETE: [(&str, &[&str]); 3] = [
    ("ETE", &[]),
    ("source addresses", &["source_addresses=1", "return_stack=1"]),
    ("source addresses everywhere", &["source_addresses=0", "timestamps=300", "cyclecount=1"]),
];

/// Records with these settings, and compares. False: QEMU is missing.
fn check(scratch: &Scratch, path: &str, unit: &str, name: &str, settings: &[&str]) -> bool {
    let capture = scratch.path("capture");
    let mut options = vec!["--truth", "--limit", "60000", "--unit", unit];
    settings.iter().for_each(|setting| options.extend(["--config", setting]));
    if !record(&capture, &options, &[path]) {
        return false;
    }
    let decoded = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    assert!(truth.lines().count() > 1000, "{path}: {} instructions", truth.lines().count());
    assert_same(&decoded, &truth, &format!("{path}, {unit}, {name}"));
    std::fs::remove_dir_all(&capture).expect("a capture");
    true
}

#[test]
fn simulated_programs_are_told_by_etrace_as_they_ran() {
    let scratch = Scratch::new("etrace");
    for name in ["sort", "vm", "pack", "calls", "isa"] {
        for (configuration, settings) in ETRACE {
            assert!(check(&scratch, &program("riscv64", name), "etrace", configuration, settings));
        }
    }
}

#[test]
fn emulated_programs_are_told_by_etrace_as_they_ran() {
    let scratch = Scratch::new("etrace-qemu");
    let path = program("riscv64", "vm");
    let capture = scratch.path("capture");
    if record(&capture, &["--truth", "--qemu", "--limit", "60000"], &[&path]) {
        let decoded = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
        assert_same(&decoded, &backsight(&["flow", "--truth", "--format", "pcs"], &capture), "vm under QEMU");
    }
}

#[test]
fn aarch64_programs_are_told_by_etm4_and_ete_as_they_ran() {
    let scratch = Scratch::new("aarch64");
    for name in ["sort", "vm", "pack", "calls"] {
        let units = ETM4.map(|row| ("etm4", row)).into_iter().chain(ETE.map(|row| ("ete", row)));
        for (unit, (configuration, settings)) in units {
            if !check(&scratch, &program("aarch64", name), unit, configuration, settings) {
                return;
            }
        }
    }
}

#[test]
fn a32_and_t32_programs_are_told_as_they_ran() {
    let scratch = Scratch::new("arm");
    for name in ["interwork", "sort", "vm", "pack", "calls"] {
        for number in [0, 1, 3, 8, 11] {
            let (configuration, settings) = ETM4[number];
            if !check(&scratch, &program("arm", name), "etm4", configuration, settings) {
                return;
            }
        }
    }
}

/// Units of PTM and ETMv3.
const OLDER: [(&str, &str, &[&str]); 7] = [
    ("ptm", "plain", &[]),
    ("ptm", "return stack", &["return_stack=1", "sync_period=256"]),
    ("ptm", "cycles, time", &["cyclecount=1", "timestamps=500", "context_id=4", "version=1.0"]),
    ("ptm", "broadcast, barriers", &["branch_broadcast=1", "barriers=1"]),
    ("etm3", "plain", &["alternative_branches=1", "sync_period=256"]),
    ("etm3", "cycles, time", &["cyclecount=1", "timestamps=500", "context_id=1"]),
    ("etm3", "data", &["data=both", "branch_broadcast=1"]),
];

#[test]
fn a32_and_t32_programs_are_reported_by_ptm_and_etm3_as_they_ran() {
    let scratch = Scratch::new("older");
    for name in ["interwork", "sort", "vm", "pack", "calls"] {
        for (unit, configuration, settings) in OLDER {
            if !check(&scratch, &program("arm", name), unit, configuration, settings) {
                return;
            }
        }
    }
}

/// A transfer: the instruction, what it does, where, and the value.
type Transfer = (String, String, Option<String>, Option<String>);

/// The accesses of a listing, word by word as ETMv3 traces them.
fn transfers(listing: &str, addresses: bool, values: bool) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    for line in listing.lines().filter(|line| line.contains("\"event\":\"access\"")) {
        let access: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| access[key].as_str().map(support::hexadecimal);
        let text = |key: &str| access[key].as_str().unwrap_or_default().to_owned();
        let (address, value) = (number("address"), number("value"));
        let size = access["size"].as_u64().expect("a size");
        for word in 0..size.div_ceil(4) {
            let part = |value: u64| {
                value >> (32 * word) & if size < 4 { (1 << (8 * size)) - 1 } else { 0xFFFF_FFFF }
            };
            transfers.push((
                text("instruction"),
                format!("{} of {}", text("kind"), size.min(4)),
                address.filter(|_| addresses).map(|address| format!("{:#x}", address + 4 * word)),
                value.filter(|_| values).map(|value| format!("{:#x}", part(value))),
            ));
        }
    }
    transfers
}

#[test]
fn data_accesses_of_a32_and_t32_programs_are_reported_by_etm3_one_by_one() {
    let scratch = Scratch::new("accesses");
    for name in ["interwork", "sort", "vm", "pack", "calls"] {
        for data in ["address", "value", "both"] {
            let capture = scratch.path("capture");
            let setting = format!("data={data}");
            let options = ["--truth", "--limit", "60000", "--unit", "etm3", "--config", &setting];
            if !record(&capture, &options, &[&program("arm", name)]) {
                return;
            }
            let (addresses, values) = (data != "value", data != "address");
            let decoded = backsight(&["flow", "--format", "json", "--strict"], &capture);
            let truth = backsight(&["flow", "--truth", "--format", "json"], &capture);
            let (decoded, truth) =
                (transfers(&decoded, addresses, values), transfers(&truth, addresses, values));
            assert!(truth.len() > 5000, "{name}: {} accesses", truth.len());
            let same = decoded.iter().zip(&truth).take_while(|(decoded, truth)| decoded == truth).count();
            assert_eq!(
                decoded.get(same),
                truth.get(same),
                "{name}, {data}: access {same} of {}",
                truth.len()
            );
            std::fs::remove_dir_all(&capture).expect("a capture");
        }
    }
}

/// What the messages of a listing say, put together.
fn said(listing: &str) -> Vec<u8> {
    let bytes = listing.lines().flat_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let digits = message["bytes"].as_str().expect("bytes").to_owned();
        let pairs = (0..digits.len()).step_by(2).map(move |at| digits[at..at + 2].to_owned());
        pairs.map(|pair| u8::from_str_radix(&pair, 16).expect("digits"))
    });
    bytes.collect()
}

#[test]
fn what_a_program_under_qemu_prints_is_in_its_capture_with_the_time() {
    let scratch = Scratch::new("messages");
    for (target, name, unit, time) in [
        ("arm", "calls", "ptm,stm", "timestamps=500"),
        ("arm", "interwork", "etm3,itm", "timestamps=500"),
        ("aarch64", "calls", "etm4,itm", "timestamps=500"),
        ("riscv64", "calls", "ntrace,stm", "timestamps=all"),
    ] {
        let capture = scratch.path("capture");
        let options = ["--truth", "--qemu", "--unit", unit, "--config", time];
        if !record(&capture, &options, &[&program(target, name)]) {
            return;
        }
        let expected =
            std::fs::read(backsight_testing::repository().join("testdata/programs/expected").join(name));
        let expected: Vec<u8> =
            expected.expect("what it prints").into_iter().filter(|byte| *byte != b'\n').collect();
        let messages = backsight(&["flow", "--messages", "--format", "json"], &capture);
        assert_eq!(String::from_utf8_lossy(&said(&messages)), String::from_utf8_lossy(&expected), "{unit}");
        let decoded = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
        let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
        assert_same(&decoded, &truth, &format!("{target} {name}, {unit}"));
        in_order_of_time(&backsight(&["flow", "--all", "--format", "json"], &capture), unit);
        std::fs::remove_dir_all(&capture).expect("a capture");
    }
}

/// Messages stand among what was executed, in the order of time.
fn in_order_of_time(listing: &str, unit: &str) {
    let (mut latest, mut first, mut messages) = (0, None, 0);
    for line in listing.lines() {
        let item: serde_json::Value = serde_json::from_str(line).expect("JSON");
        messages += usize::from(item["event"] == "message");
        let Some(estimate) = item["at"]["estimate"].as_u64() else { continue };
        assert!(estimate >= latest, "{unit}: {line}");
        first.get_or_insert(estimate);
        latest = estimate;
    }
    assert!(messages > 0 && first.is_some_and(|first| first < latest), "{unit}: {messages} messages");
}

#[test]
fn threads_are_told_each_by_a_source_of_its_own() {
    let scratch = Scratch::new("threads");
    for (target, unit) in
        [("aarch64", "etm4"), ("aarch64", "ete"), ("riscv64", "etrace"), ("riscv64", "ntrace")]
    {
        let capture = scratch.path(unit);
        let options = ["--truth", "--qemu", "--unit", unit];
        if !record(&capture, &options, &[&program(target, "threads")]) {
            return;
        }
        let first = if target == "riscv64" { 1 } else { 0x10 };
        for id in first..first + 4 {
            let id = id.to_string();
            let decoded = backsight(&["flow", "--format", "pcs", "--strict", "--id", &id], &capture);
            let truth = backsight(&["flow", "--truth", "--format", "pcs", "--id", &id], &capture);
            assert!(truth.lines().count() > 100, "{target}, ID {id}: {} instructions", truth.lines().count());
            assert_same(&decoded, &truth, &format!("{target}, {unit}, ID {id}"));
        }
    }
}

#[test]
fn threads_in_the_simulator_have_streams_of_their_own() {
    let scratch = Scratch::new("simulated-threads");
    for unit in ["etrace", "ntrace"] {
        let capture = scratch.path(unit);
        assert!(record(&capture, &["--truth", "--unit", unit], &[&program("riscv64", "threads")]));
        assert!(capture.join("trace-3.bin").exists());
        for id in ["1", "2", "3", "4"] {
            let decoded = backsight(&["flow", "--format", "pcs", "--strict", "--id", id], &capture);
            let truth = backsight(&["flow", "--truth", "--format", "pcs", "--id", id], &capture);
            assert!(truth.lines().count() > 100, "{unit}, ID {id}: {} instructions", truth.lines().count());
            assert_same(&decoded, &truth, &format!("{unit}, ID {id}"));
        }
    }
}

/// Code that a program makes again at the same address: a capture keeps the last, and the recorder says so.
#[test]
fn code_that_a_program_makes_is_kept_by_the_simulator_and_that_it_changed_is_said() {
    let scratch = Scratch::new("simulated-jit");
    let capture = scratch.path("capture");
    let output =
        support::run(&["record", "-o", &capture.display().to_string(), "--", &program("riscv64", "jit")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("note: code changed at "), "{said}");
    assert!(capture.join("code/seen.bin").exists());
    // Without timestamps nothing says which version ran: a listing says so.
    let listed = support::run(&["flow", &capture.display().to_string(), "--format", "pcs"]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(
        listed.status.success() && said.contains("warning: code changed while the program ran"),
        "{said}"
    );
}

#[test]
fn a_filter_leaves_exactly_what_it_lets_through() {
    let scratch = Scratch::new("filter");
    let path = program("aarch64", "calls");
    let mut image = Image::new();
    image.add_elf(std::path::Path::new(&path), None, AddressSpace::ANY).expect("a bundled program");
    for function in ["hanoi", "ackermann"] {
        let range = image
            .functions()
            .find(|other| other.name == function)
            .map(|function| format!("{:#x}..{:#x}", function.start.0, function.start.0 + function.size))
            .expect("a function of the program");
        for (kind, settings) in [
            ("return stack", vec![format!("range={range}"), "return_stack=1".to_owned()]),
            ("guesses", vec![format!("range={range}"), "speculation=40".to_owned()]),
        ] {
            let capture = scratch.path(&format!("{function}-{kind}"));
            let mut options = vec!["--truth", "--limit", "100000"];
            settings.iter().for_each(|setting| options.extend(["--config", setting]));
            if !record(&capture, &options, &[&path]) {
                return;
            }
            let decoded = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
            let truth = backsight(&["flow", "--truth", "--format", "pcs", "--range", &range], &capture);
            assert!(truth.lines().count() > 100, "{function}: {} instructions", truth.lines().count());
            assert_same(&decoded, &truth, &format!("{function}, {kind}"));
        }
    }
}

/// A buffer that is too small: what is decoded is stretches of what ran, in order, and between two of them the trace
/// says that something was lost.
#[test]
fn gaps_are_where_the_unit_lost_data_and_nowhere_else() {
    let scratch = Scratch::new("losses");
    let capture = scratch.path("capture");
    let options = ["--truth", "--limit", "100000", "--config", "fifo=64:100", "--config", "sync_period=256"];
    if !record(&capture, &options, &[&program("aarch64", "sort")]) {
        return;
    }
    let truth: Vec<String> =
        backsight(&["flow", "--truth", "--format", "pcs"], &capture).lines().map(str::to_owned).collect();
    let mut stretches: Vec<Vec<String>> = vec![Vec::new()];
    for line in backsight(&["flow", "--format", "json"], &capture).lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if line.contains("overflow") {
            stretches.push(Vec::new());
        } else if event["event"] == "range" {
            let number = |key: &str| support::hexadecimal(event[key].as_str().expect("an address"));
            let decoded = (number("start")..number("end")).step_by(4).map(|address| format!("{address:#x}"));
            stretches.last_mut().expect("at least one").extend(decoded);
        }
    }
    let stretches: Vec<Vec<String>> = stretches.into_iter().filter(|stretch| !stretch.is_empty()).collect();
    let mut at = 0;
    for (number, stretch) in stretches.iter().enumerate() {
        let place = truth[at..].windows(stretch.len()).position(|window| window == stretch);
        let Some(place) = place else {
            panic!("stretch {number} is no stretch of what ran behind instruction {at}")
        };
        at += place + stretch.len();
    }
    let decoded: usize = stretches.iter().map(Vec::len).sum();
    let lost = truth.len() - decoded;
    assert!(stretches.len() > 10 && lost > 1000, "{} stretches, {lost} instructions lost", stretches.len());
}

#[test]
fn opencsd_reads_the_same_ranges_from_our_snapshots() {
    let scratch = Scratch::new("opencsd");
    for (target, name) in [("aarch64", "calls"), ("aarch64", "vm"), ("arm", "interwork")] {
        let capture = scratch.path(name);
        let options = [
            "--format",
            "snapshot",
            "--limit",
            "50000",
            "--config",
            "cyclecount=1",
            "--config",
            "timestamps=900",
        ];
        if !record(&capture, &options, &[&program(target, name)]) {
            return;
        }
        let Some(theirs) = opencsd_ranges(&capture, 0x10) else { return };
        let ours = ranges(&backsight(&["flow", "--format", "opencsd"], &capture), 0x10);
        assert!(ours.len() > 1000, "{name}: {} ranges", ours.len());
        let same = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
        assert_eq!(theirs.get(same), ours.get(same), "{target} {name}: range {same}");
    }
}
