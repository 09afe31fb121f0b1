//! Sessions of a real gdb on recordings with loads and stores.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::support::recording::{emulated, program, record, recorded, simulated};
use crate::support::session::{Scratch, has_gdb, run_gdb, session, transcript};
use crate::support::{Random, moments, replay};
use backsight::Capture;
use backsight_core::Execution;
use backsight_debug::replay::Replay;
use backsight_run::TRUTH;
use backsight_run::retired::RetiredReader;
use backsight_testing::{assert_golden, skipped};

/// Does something with a walk through the capture of a folder, whose recording is known.
fn walk<T>(folder: &std::path::Path, act: impl FnOnce(&mut Replay<'_>) -> T) -> T {
    let capture = Capture::open(folder).expect("a capture");
    let moments = moments(&capture);
    let replay = replay(&capture, &moments);
    let recorded = recorded(&replay, folder).expect("the recording is of this run");
    act(&mut replay.with_state(Box::new(recorded)))
}

#[test]
fn memory_is_watched_forwards_and_backwards_and_gdb_finds_callers_by_itself() {
    if !has_gdb() {
        return;
    }
    let scratch = Scratch::new("watched");
    let folder = scratch.0.join("capture");
    record(&mut simulated("calls", 90_000), "etrace", &folder);
    let words = "\
monitor known
bt
info registers sp ra a0 fa0 fcsr
monitor first
break hanoi
continue
bt
info registers sp ra a0 moment
x/2gx $sp
print moves
watch moves
delete 1
continue
continue
bt 2
print moves
reverse-continue
reverse-continue
print moves
delete
rwatch moves
continue
continue
reverse-continue
delete
awatch moves
continue
continue
delete
up
finish
print *(int *) 0x1000
set var moves = 1
";
    let text = walk(&folder, |replay| session("watched", replay, words));
    let transcript = transcript(&text);
    assert!(transcript.contains("Hardware watchpoint"), "{text}");
    assert_golden("crates/backsight-debug/tests/golden/recorded-riscv64.txt", &transcript);
}

#[test]
fn watchpoints_are_refused_where_accesses_are_not_known() {
    if !has_gdb() {
        return;
    }
    let capture = crate::support::bundled("calls-riscv64");
    let moments = moments(&capture);
    let text =
        session("unwatched", &mut replay(&capture, &moments), "watch moves\ncontinue\nmonitor known\n");
    assert!(text.contains("Could not insert hardware watchpoint 1."), "{text}");
    assert!(text.contains("registers and memory are not known"), "{text}");
}

/// A program that waits for a debugger under QEMU.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What gdb says of a program under QEMU; `None`, and a word about it, where there is no QEMU.
fn under_qemu(name: &str, words: &str) -> Option<String> {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let child = Command::new("qemu-riscv64")
        .args(["-g", &port.to_string(), "-0", name])
        .arg(program(name))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        skipped("no qemu-riscv64 (apt-get install qemu-user)");
        return None;
    };
    let _child = Waiting(child);
    let scratch = Scratch::new(&format!("qemu-{name}"));
    let script = scratch.0.join("connect.gdb");
    let lines = [
        format!("file {}", program(name).display()),
        "set print entry-values no".to_owned(),
        "set print frame-arguments scalars".to_owned(),
        format!("target remote :{port}\n"),
    ];
    fs::write(&script, lines.join("\n")).expect("a script");
    Some(String::from_utf8_lossy(&run_gdb(&script, words).stdout).into_owned())
}

/// What gdb said at each moment to each command.
fn said(text: &str) -> BTreeMap<u64, Vec<(String, Vec<String>)>> {
    let (mut all, mut moment) = (BTreeMap::<u64, Vec<(String, Vec<String>)>>::new(), None);
    for line in text.lines().map(|line| line.trim_start_matches("(gdb) ").trim_end()) {
        let is_ours = |line: &str| line.starts_with("moment ") || line.starts_with("calls ");
        if let Some(number) = line.strip_prefix('@') {
            moment = number.parse().ok();
        } else if ["+stepi", "+monitor", "+quit"].iter().any(|word| line.starts_with(word)) {
            moment = None;
        } else if let Some(moment) = moment {
            let answers = all.entry(moment).or_default();
            match (line.strip_prefix('+'), answers.last_mut()) {
                (Some(command), _) => answers.push((command.to_owned(), Vec::new())),
                (None, Some((_, lines))) if !is_ours(line) && !line.is_empty() => {
                    // Values that were printed have numbers, which go on.
                    let value = line.strip_prefix('$').and_then(|line| line.split_once(" = "));
                    lines.push(value.map_or(line, |value| value.1).to_owned());
                }
                _ => {}
            }
        }
    }
    all
}

/// Numbers and words of a line.
fn parts(line: &str) -> Vec<Result<u64, &str>> {
    let words =
        line.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').filter(|word| !word.is_empty());
    words
        .map(|word| match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| word),
            None => word.parse().map_err(|_| word),
        })
        .collect()
}

/// Is what gdb says the same, but for where the stack is?
fn is_same(ours: &[String], theirs: &[String], moved: &mut Option<u64>) -> bool {
    let is_equal = |(ours, theirs): (&Result<u64, &str>, &Result<u64, &str>)| match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if ours != theirs => {
            let distance = theirs.wrapping_sub(*ours);
            *moved.get_or_insert(distance) == distance
        }
        _ => ours == theirs,
    };
    let (ours, theirs): (Vec<_>, Vec<_>) = (
        ours.iter().flat_map(|line| parts(line)).collect(),
        theirs.iter().flat_map(|line| parts(line)).collect(),
    );
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(is_equal)
}

const QUESTIONS: &str = "info registers\nbt\ninfo locals\ninfo args\nx/2gx $sp\nx/gx $sp + 24\n";

#[test]
fn a_hundred_moments_are_those_of_the_same_program_under_qemu() {
    const STEPS: u64 = 2500;
    if !has_gdb() {
        return;
    }
    for (name, global) in [("calls", "print moves\nprint nodes[1]\n"), ("sort", "print numbers[0]@8\n")] {
        let mut random = Random(17);
        // Before that, the stack has what QEMU puts there by its own ways: names and arguments.
        let moments: Vec<u64> = (0..100).map(|_| 40 + random.below(STEPS - 40)).collect();
        let mut sorted = moments.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let (mut now, mut theirs) = (0, String::new());
        for moment in sorted {
            theirs += &format!("stepi {}\nprintf \"@%d\\n\", {moment}\n{QUESTIONS}{global}", moment - now);
            now = moment;
        }
        let Some(theirs) = under_qemu(name, &theirs) else { return };
        let ask = |moment: &u64| {
            format!("monitor goto #{moment}\nprintf \"@%d\\n\", {moment}\n{QUESTIONS}{global}")
        };
        let words: String = moments.iter().map(ask).collect();
        let scratch = Scratch::new(&format!("moments-{name}"));
        let folder = scratch.0.join("capture");
        record(&mut simulated(name, STEPS + 100), "etrace", &folder);
        let ours = walk(&folder, |replay| session(&format!("ours-{name}"), replay, &words));
        let (ours_said, theirs_said) = (said(&ours), said(&theirs));
        assert!(ours_said.len() > 90, "{ours}");
        assert_eq!(ours_said.keys().collect::<Vec<_>>(), theirs_said.keys().collect::<Vec<_>>());
        let (mut moved, mut known, mut unknown) = (None, 0, 0);
        for (moment, ours) in &ours_said {
            let theirs = &theirs_said[moment];
            assert_eq!(ours.len(), theirs.len(), "{name} #{moment}");
            for ((command, ours), (_, theirs)) in ours.iter().zip(theirs) {
                if ours.iter().any(|line| line.contains("Cannot access memory")) {
                    unknown += 1;
                    continue;
                }
                known += 1;
                let is_same = is_same(ours, theirs, &mut moved);
                assert!(
                    is_same,
                    "{name} #{moment} {command}:\n{}\nunder QEMU:\n{}",
                    ours.join("\n"),
                    theirs.join("\n")
                );
            }
        }
        assert!(known >= 5 * unknown, "{name}: {known} answers, {unknown} of memory that is not known");
    }
}

#[test]
fn memory_of_a64_is_watched_although_registers_are_not_known() {
    if !has_gdb() {
        return;
    }
    let Some(mut source) = emulated("aarch64/calls") else { return };
    let scratch = Scratch::new("watched-a64");
    let folder = scratch.0.join("capture");
    record(&mut source, "etm4", &folder);
    let truth = fs::read(folder.join(TRUTH)).expect("a recording");
    let (mut count, mut accesses) = (0_u64, BTreeMap::<u64, Vec<u64>>::new());
    for item in RetiredReader::new(&truth[..]).expect("a recording") {
        match item.expect("a recording") {
            Execution::Instruction(_) => count += 1,
            Execution::Access(access) if access.size == 8 => {
                accesses.entry(access.address.0).or_default().push(count - 1);
            }
            _ => {}
        }
    }
    let (address, found) =
        accesses.into_iter().find(|(_, found)| (4..40).contains(&found.len())).expect("one");
    let forwards = "continue\nprint $moment\n".repeat(4);
    let backwards = "reverse-continue\nprint $moment\n".repeat(3);
    let words = format!(
        "monitor known\nmonitor gaps off\nmonitor first\nawatch *(long *) {address:#x}\n{forwards}{backwards}"
    );
    let text = walk(&folder, |replay| session("watched-a64", replay, &words));
    assert!(text.contains("memory that the program read or wrote is known, registers are not"), "{text}");
    let values =
        text.lines().filter_map(|line| line.strip_prefix('$')?.split_once(" = ")?.1.parse::<u64>().ok());
    let values: Vec<u64> = values.collect();
    let after = found[..4].iter().map(|number| number + 1);
    let before = found[1..4].iter().rev().copied();
    assert_eq!(values, after.chain(before).collect::<Vec<_>>(), "{found:?} {text}");
}
