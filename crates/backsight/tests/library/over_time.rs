//! Code that changes while it is traced: the event log says what was where, and timestamps say when.

use std::path::{Path, PathBuf};

use backsight::core::{Address, Security};
use backsight::etm4::{
    AddressForm, AddressPacket, Atoms, Config, Context, Encoder, Is, Packet, Timestamp, TraceInfo,
};
use backsight::{Capture, Event};

const NOP: u32 = 0xD503_201F;
const RET: u32 = 0xD65F_03C0;

/// What the trace says.
#[derive(Clone, Copy)]
enum Step {
    /// A block at 0x1000, in a context.
    Visit(u32),
    Time(u64),
}
use Step::{Time, Visit};

fn trace(steps: &[Step]) -> Vec<u8> {
    let mut config = Config::etm4_default();
    config.set_option("context_id", "32").unwrap();
    config.set_option("timestamp_bits", "64").unwrap();
    let mut encoder = Encoder::new(&config);
    let mut bytes = Vec::new();
    let mut put = |packet: Packet| {
        bytes.extend(encoder.encode(&packet).unwrap_or_else(|error| panic!("{packet:?}: {error}")));
    };
    put(Packet::Async);
    put(Packet::TraceInfo(TraceInfo { sections: 1, ..TraceInfo::default() }));
    for step in steps {
        match *step {
            Visit(context) => {
                let context = Context {
                    level: 0,
                    security: Security::NonSecure,
                    wide: true,
                    vmid: None,
                    context_id: Some(context),
                };
                let address =
                    AddressPacket { address: Address(0x1000), is: Is::Is0, form: AddressForm::Long64 };
                put(Packet::AddressContext(address, context));
                put(Packet::Atoms(Atoms { bits: 1, count: 1 }));
            }
            Time(value) => put(Packet::Timestamp(Timestamp { value, bytes: 9, cycles: None })),
        }
    }
    bytes
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A package with a log and files of code: `nopsN` has N instructions before its return.
fn package(name: &str, layout: &str, log: &str, steps: &[Step]) -> Folder {
    let folder = std::env::temp_dir().join(format!("backsight-{}-over-time-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("images")).unwrap();
    let contents =
        format!("[trace]\nmetadata=trace.ini\nbuffer0=data\n[events]\nlog=log\ncontextidr={layout}\n");
    let metadata = "[buffer]\nformat: raw\nsource: 16\n[trace_16]\nformat: ETM4.0\ncontext_id: 32\ntimestamp_bits: 64\ncpu: 1\n";
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("contents.ini", contents.as_bytes());
    write("trace.ini", metadata.as_bytes());
    write("log", format!("%system-event-log version=1\n{log}").as_bytes());
    write("data", &trace(steps));
    for count in 0..4 {
        write(&format!("images/nops{count}"), &code(count));
    }
    Folder(folder)
}

fn code(nops: usize) -> Vec<u8> {
    let words = std::iter::repeat_n(NOP, nops).chain([RET]);
    words.flat_map(u32::to_le_bytes).collect()
}

/// What is executed, as numbers of instructions in each block; `None` where there is no code.
fn blocks(folder: &Path) -> Vec<Option<u32>> {
    let capture = Capture::open(folder).unwrap_or_else(|error| panic!("{error}"));
    let mut blocks = Vec::new();
    let summary = capture.execution().run(|item| match item.value {
        Event::Range(range) => blocks.push(Some(range.instructions)),
        Event::NoMemory { .. } => blocks.push(None),
        _ => {}
    });
    summary.unwrap_or_else(|error| panic!("{error}"));
    blocks
}

fn executed(name: &str, layout: &str, log: &str, steps: &[Step]) -> Vec<Option<u32>> {
    blocks(&package(name, layout, log, steps).0)
}

fn map(time: u64, state: &str, pid: u32, nops: u32) -> String {
    format!("{time} declare_process {state} pid={pid} base=0x1000 size=0x100 image=nops{nops}\n")
}

#[test]
fn a_pid_that_is_used_again_runs_its_new_program() {
    let log = map(10, "START", 5, 1) + &map(100, "END", 5, 1) + &map(200, "START", 5, 3);
    let steps = [
        Time(50),
        Visit(5),
        Time(60),
        Visit(5),
        Time(150),
        Visit(5),
        Time(170),
        Visit(5),
        Time(210),
        Visit(5),
    ];
    // Between 60 and 150 the program may still run; between 150 and 170 there is none; between 170 and 210 it may have begun.
    let expected = [Some(2), Some(2), None, Some(4), Some(4)];
    assert_eq!(executed("reuse", "pid", &log, &steps), expected);
}

#[test]
fn a_log_that_has_only_the_end_says_what_was_before() {
    let log = map(100, "END", 5, 1) + &map(200, "START", 5, 3);
    let steps = [Time(50), Visit(5), Time(60), Visit(5), Time(210), Visit(5)];
    assert_eq!(executed("end", "pid", &log, &steps), [Some(2), Some(2), Some(4)]);
    let snapshot = format!("%snapshot at=begin complete=1\n{}%snapshot at=end\n", map(300, "CURRENT", 5, 2));
    let log = map(250, "END", 6, 1) + &snapshot;
    assert_eq!(
        executed("snapshot", "pid", &log, &[Time(50), Visit(5), Visit(6), Time(60)]),
        [Some(3), Some(2)]
    );
}

#[test]
fn events_that_are_lost_leave_gaps_and_invent_nothing() {
    let log = map(10, "START", 5, 1)
        + &map(50, "END", 5, 1)
        + "100 declare_thread START tid=9 pid=9\n%lost count=3\n"
        // Until here anything may have come and gone.
        + "150 declare_thread END tid=9 pid=9\n"
        + &map(200, "END", 5, 2);
    let steps = [
        Time(20),
        Visit(5),
        Time(30),
        Visit(5),
        Time(80),
        Time(90),
        Visit(5),
        Time(95),
        Time(120),
        Visit(5),
        Time(130),
        Time(160),
        Visit(5),
        Time(170),
    ];
    assert_eq!(executed("lost", "pid", &log, &steps), [Some(2), Some(2), None, None, Some(3)]);
}

#[test]
fn what_was_there_before_events_were_lost_counts_after_them_only_if_it_is_named_again() {
    let before = map(10, "START", 5, 1) + "100 declare_thread START tid=9 pid=9\n%lost\n";
    let steps = [Time(20), Visit(5), Time(30), Time(160), Visit(5), Time(170)];
    let doubtful = before.clone() + "150 declare_thread END tid=9 pid=9\n";
    assert_eq!(executed("doubtful", "pid", &doubtful, &steps), [Some(2), None]);
    let ended = before.clone() + &map(200, "END", 5, 1);
    assert_eq!(executed("ended", "pid", &ended, &steps), [Some(2), Some(2)]);
    let listed = before + &map(200, "CURRENT", 5, 1);
    assert_eq!(executed("listed", "pid", &listed, &steps), [Some(2), Some(2)]);
}

#[test]
fn what_ended_without_having_begun_was_there_since_the_one_before_it_ended() {
    let log = map(100, "END", 5, 1) + &map(200, "END", 5, 2);
    let steps = [Time(20), Visit(5), Time(30), Time(120), Visit(5), Time(130)];
    assert_eq!(executed("wound-back", "pid", &log, &steps), [Some(2), Some(3)]);
}

#[test]
fn where_the_end_names_other_code_than_the_beginning_nobody_knows_what_ran() {
    let log = map(10, "START", 5, 1) + &map(200, "END", 5, 2);
    let steps = [Time(20), Visit(5), Time(30), Time(210), Visit(5), Time(220)];
    assert_eq!(executed("mismatch", "pid", &log, &steps), [None, None]);
}

#[test]
fn patches_hide_what_is_below_until_something_is_mapped_over_them() {
    let patch = |time: u64, nops: usize| {
        let code: String = code(nops).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{time} patch_code pid=5 addr=0x1000 len={} code={code}\n", 4 * (nops + 1))
    };
    let log = map(10, "START", 5, 1) + &patch(100, 0) + &patch(200, 2) + &map(300, "START", 5, 3);
    let steps = [
        Time(50),
        Visit(5),
        Time(100),
        Visit(5),
        Time(110),
        Time(210),
        Visit(5),
        Time(220),
        Time(310),
        Visit(5),
        Time(320),
    ];
    assert_eq!(executed("patch", "pid", &log, &steps), [Some(2), Some(1), Some(3), Some(4)]);
}

#[test]
fn switches_say_which_process_runs_where_contextidr_does_not() {
    let log = map(1, "CURRENT", 5, 1)
        + &map(1, "CURRENT", 6, 3)
        + "10 switch cpu=1 pid=5\n100 switch cpu=1 pid=6\n"
        + "150 switch cpu=0 pid=5\n200 switch cpu=1 pid=5\n";
    let steps = [
        Time(20),
        Visit(7),
        Time(30),
        Time(110),
        Visit(7),
        Time(160),
        Visit(7),
        Time(170),
        Time(210),
        Visit(7),
    ];
    assert_eq!(executed("switch", "none", &log, &steps), [Some(2), Some(4), Some(4), Some(2)]);
}

#[test]
fn an_asid_that_is_used_again_stands_for_another_process() {
    let log = map(1, "CURRENT", 5, 1)
        + &map(1, "CURRENT", 6, 3)
        + "10 declare_asid START asid=7 pid=5\n"
        + "100 declare_asid END asid=7 pid=5\n110 declare_asid START asid=7 pid=6\n";
    let steps = [Time(20), Visit(7), Time(30), Time(120), Visit(7), Time(130)];
    assert_eq!(executed("asid", "asid", &log, &steps), [Some(2), Some(4)]);
}

#[test]
fn without_timestamps_the_last_word_of_the_log_counts() {
    let log = map(10, "START", 5, 1) + &map(100, "END", 5, 1) + &map(200, "START", 5, 3);
    assert_eq!(executed("timeless", "pid", &log, &[Visit(5)]), [Some(4)]);
}

#[test]
fn of_very_many_processes_some_are_tried_and_a_warning_says_so() {
    // One after the other the processes have code, that of the last one is at the address that is executed.
    let log = |count: u32| {
        let others = (1..count).map(|pid| {
            format!(
                "10 declare_process START pid={pid} base={:#x} size=0x100 image=nops1\n",
                0x10_0000 + pid * 0x100
            )
        });
        others.collect::<String>() + &map(10, "START", count, 3)
    };
    for (count, expected, is_said) in [(4096, Some(4), false), (4097, None, true)] {
        let folder = package(&format!("many-{count}"), "none", &log(count), &[Time(50), Visit(1), Time(60)]);
        let capture = Capture::open(&folder.0).unwrap();
        let mut blocks = Vec::new();
        let summary = capture.execution().run(|item| match item.value {
            Event::Range(range) => blocks.push(Some(range.instructions)),
            Event::NoMemory { .. } => blocks.push(None),
            _ => {}
        });
        summary.unwrap();
        assert_eq!(blocks, [expected], "{count}");
        let warnings = capture.code().unwrap().warnings();
        let said = warnings.iter().any(|warning| warning.contains("more than 4096 have code"));
        assert_eq!(said, is_said, "{count}: {warnings:?}");
    }
}
