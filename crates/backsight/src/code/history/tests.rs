//! Logs that are read in epochs give what they give when they are read at once.

use backsight_arm::frame::Framing;
use backsight_capture::Capture;
use backsight_capture::events::EventLog;
use backsight_capture::folder::Memory;

use super::super::files::MappedBytes;
use super::super::search::Search;
use super::*;
use backsight_image::{AllowedFiles, Budget};

/// The pseudo-random numbers of one seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A system that maps and unmaps, patches, starts and ends. Now and then its log has holes, losses, lists that are complete
/// or not, lines out of order, or no beginning.
fn log(random: &mut Random) -> EventLog {
    let damage = random.below(3) == 0;
    let mut lines = Vec::new();
    let mut live: Vec<(u64, u64, u64)> = Vec::new();
    let mut time = 10;
    if random.below(2) == 0 {
        lines.push("%snapshot at=begin complete=1".to_owned());
        for pid in 0..random.below(3) {
            lines.push(mapping(time, "CURRENT", (pid, pid * 64, 0)));
            live.push((pid, pid * 64, 0));
        }
        lines.push("%snapshot at=end".to_owned());
    }
    lines.extend((0..2).map(|cpu| format!("{time} switch cpu={cpu} pid=1")));
    for _ in 0..20 + random.below(120) {
        time += random.below(4);
        let (pid, base) = (random.below(3), random.below(8) * 16);
        match random.below(12) {
            0..=3 => {
                let image = random.below(4);
                lines.push(mapping(time, "START", (pid, base, image)));
                live.retain(|&(other, at, _)| (other, at) != (pid, base));
                live.push((pid, base, image));
            }
            4..=6 if !live.is_empty() => {
                let ended = live.swap_remove(random.below(live.len() as u64) as usize);
                lines.push(mapping(time, "END", ended));
                // The end of a process takes all along.
                live.retain(|&(other, _, _)| ended.1 != 0 || other != ended.0);
            }
            7 => {
                let code = random.below(256);
                let address = base + random.below(12);
                lines.push(format!("{time} patch_code pid={pid} addr={address} len=2 code={code:02x}ff"));
            }
            8 => lines.push(format!("{time} switch cpu={} pid={pid}", random.below(2))),
            9 => {
                let tid = 10 + random.below(4);
                lines.push(format!("{time} declare_thread START tid={tid} pid={pid}"));
                if random.below(2) == 0 {
                    lines.push(format!("{} declare_thread END tid={tid} pid={pid}", time + 1));
                    time += 1;
                }
            }
            10 => lines.push(format!("{time} declare_asid START asid={} pid={pid}", random.below(3))),
            _ => {}
        }
        if damage {
            match random.below(30) {
                0 => lines.push("%lost".to_owned()),
                1 => {
                    lines.push(format!("%snapshot at=begin complete={}", random.below(2)));
                    lines.extend(live.iter().map(|&mapped| mapping(time, "CURRENT", mapped)));
                    lines.push("%snapshot at=end".to_owned());
                }
                2 if !lines.is_empty() => {
                    drop(lines.remove(random.below(lines.len().max(1) as u64) as usize))
                }
                3 if !lines.is_empty() => {
                    let (from, to) =
                        (random.below(lines.len().max(1) as u64), random.below(lines.len().max(1) as u64));
                    lines.swap(from as usize, to as usize);
                }
                4 if !lines.is_empty() => {
                    drop(lines.drain(..random.below(lines.len().max(1) as u64) as usize))
                }
                _ => {}
            }
        }
    }
    EventLog::parse("log", &format!("%system-event-log version=1\n{}\n", lines.join("\n"))).expect("a log")
}

fn mapping(time: u64, state: &str, (pid, base, image): (u64, u64, u64)) -> String {
    let name = if base == 0 { "declare_process" } else { "declare_library" };
    let size = 8 + image * 8;
    format!("{time} {name} {state} pid={pid} base={base} image=\"/lib/{image}\" size={size}")
}

fn read(events: &Events, forward: Option<usize>) -> (History, Arc<Files>, Arc<Processes>) {
    let file = Memory::file("trace", Vec::new());
    let capture = Arc::new(Capture::bare(file, "ETM4", Framing::Raw, None, &Vec::new()));
    let processes = Arc::new(Processes::of(&capture));
    let files = Arc::new(Files::new(
        Search::new(capture, AllowedFiles::default()),
        Vec::new().into(),
        Budget::default(),
    ));
    let history = History::with(events, forward, processes.clone(), Some(files.clone()));
    (history, files, processes)
}

/// All that can be asked of a span of time, in words.
fn answers(files: &Files, moment: Moment<'_>, window: Window) -> Vec<String> {
    let mut all = Vec::new();
    for process in 0..=3 {
        for address in (0..160).step_by(3) {
            let mapped = moment.epochs(window.to).find_map(|epoch| {
                match epoch.timeline.look(process, address, window) {
                    Lookup::Nothing => None,
                    Lookup::Unknown => Some("unknown".to_owned()),
                    Lookup::Mapped { id, .. } => {
                        let mapped = &epoch.mapped[id.index()];
                        let Mapped { start, bytes } = mapped;
                        Some(match bytes {
                            MappedBytes::File(_) => {
                                let file = mapped.named(files).map(|named| &named.file);
                                format!("{start} {file:?} {}", mapped.offset())
                            }
                            MappedBytes::Inline(code) => format!("{start} {:?}", &code[..]),
                            other => format!("{start} {other:?}"),
                        })
                    }
                }
            });
            let bytes = match moment.look(process, address, window, files) {
                Look::Bytes(bytes) => bytes[0].to_string(),
                Look::Unknown => "unknown".to_owned(),
                Look::Nothing => "nothing".to_owned(),
            };
            all.push(format!("{process} {address}: {mapped:?} {bytes}"));
        }
    }
    for number in 0..16 {
        let thread = moment.holder(|holders| holders.thread(number));
        let asid = moment.holder(|holders| holders.asid(None, number as u32));
        let cpu = moment.holder(|holders| holders.cpu(number as u32));
        all.push(format!("{number}: {thread:?} {asid:?} {cpu:?}"));
    }
    all
}

#[test]
fn a_log_that_is_read_in_epochs_says_what_it_says_when_it_is_read_at_once() {
    let (mut forward, mut backward, mut epochs) = (0, 0, 0);
    for seed in 0..150 {
        let mut random = Random(seed);
        let (log, least) = (log(&mut random), 3 + random.below(10) as usize);
        if !log.is_forward_after(least) {
            backward += 1;
            continue;
        }
        forward += 1;
        let end = log.records.iter().filter_map(|record| record.time).max().unwrap_or(0);
        let events = Events::from(log);
        let (at_once, files, processes) = read(&events, None);
        let (in_epochs, other_files, other_processes) = read(&events, Some(least));
        let (mut one, mut other) = (at_once.at_no_time(), in_epochs.at_no_time());
        let mut from = 0;
        for _ in 0..60 {
            let window = Window { from, to: from + random.below(12) };
            let before = one.window();
            let changes = before.map(|before| {
                let key = |change: TimedChange| (change.time, change.process, change.start, change.last);
                let mut changes = [one, other].map(|moment| {
                    let all = moment.changes(before.from, window.to, usize::MAX - 1);
                    let mut all: Vec<_> = all.into_iter().map(key).collect();
                    all.sort_unstable();
                    all
                });
                (std::mem::take(&mut changes[0]), std::mem::take(&mut changes[1]))
            });
            if let (Some((one, other)), true) = (changes, before.is_some_and(|before| before.from <= from)) {
                assert_eq!(one, other, "changes, seed {seed}, {window:?}");
            }
            (one, other) = (one.enter(window), other.enter(window));
            let (expected, found) = (answers(&files, one, window), answers(&other_files, other, window));
            assert_eq!(expected, found, "seed {seed}, {window:?}, {least} records at least");
            // Now and then another decode begins at the start.
            from = if random.below(20) == 0 {
                random.below(end)
            } else {
                (from + 1 + random.below(9)).min(end + 3)
            };
        }
        let last = |history: &History| {
            (10..14).map(|tid| history.at_no_time().holder(|holders| holders.thread(tid))).collect::<Vec<_>>()
        };
        assert_eq!(last(&at_once), last(&in_epochs), "seed {seed}");
        let numbers = |processes: &Processes| [0, 1, 2].map(|pid| processes.add(ANY, pid).process());
        assert_eq!(numbers(&processes), numbers(&other_processes), "seed {seed}");
        let mut epoch = &*in_epochs.first;
        while let Some(next) = epoch.next.get() {
            (epoch, epochs) = (next, epochs + 1);
        }
    }
    assert!(forward > 50 && backward > 20 && epochs > 2 * forward, "{forward}, {backward}, {epochs}");
}

const ANY: backsight_core::AddressSpace = backsight_core::AddressSpace::ANY;
