//! perf.data files that are written here, record by record, and read again.

use backsight_capture::events::{Item, Pid, State};
use backsight_capture::{Capture, ContextIdLayout, EventClock, Start};
use std::io::Read;

const TID_TIME_CPU_IDENTIFIER: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 16;
const ETM4: u64 = 0x4040_4040_4040_4040;
const EVENT: u64 = 77;

/// A perf.data file while it is written.
#[derive(Default)]
struct PerfData {
    data: Vec<u8>,
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 8).unwrap();
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// A record of the kernel, with the thread, the time, the CPU and the event at its end.
fn kernel_record(kind: u32, misc: u16, body: &[u8], time: u64, cpu: u32, tid: u32) -> Vec<u8> {
    let trailer = words(&[pair(500, tid), time, u64::from(cpu), EVENT]);
    record(kind, misc, &[body, &trailer].concat())
}

fn attribute() -> Vec<u8> {
    // Type and size, configuration, period, what samples hold, how they are read, and that all records have it.
    [words(&[pair(8, 64), 0, 0, TID_TIME_CPU_IDENTIFIER, 0, 1 << 18, 0, 0])].concat()
}

fn info() -> Vec<u8> {
    let unit =
        |cpu: u64, id: u64| [ETM4, cpu, 8, 0x40, id, 0x2800_0EA1, 0x4100_F422, 0x2000_1088, 0, 0x8C, 1];
    let all = [&[1, pair(2, 8), 0][..], &unit(0, 0x10), &unit(1, 0x12)].concat();
    record(70, 0, &[words(&[3]), words(&all)].concat())
}

fn auxtrace(cpu: u32, tid: u32, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let body = words(&[bytes.len() as u64, offset, 0, pair(cpu, tid), pair(cpu, 0)]);
    [record(71, 0, &body), bytes.to_vec()].concat()
}

fn aux(cpu: u32, tid: u32, time: u64, offset: u64, size: u64, flags: u64) -> Vec<u8> {
    kernel_record(11, 0, &words(&[offset, size, flags]), time, cpu, tid)
}

fn mmap2(pid: u32, address: u64, length: u64, offset: u64, name: &str, time: u64) -> Vec<u8> {
    let file = words(&[pair(pid, pid), address, length, offset, 0, 0, 0, pair(5, 2)]);
    kernel_record(10, 2, &[file, padded(name)].concat(), time, 0, pid)
}

impl PerfData {
    fn of(records: &[Vec<u8>]) -> Self {
        Self { data: records.concat() }
    }

    /// As a file with a header and tables.
    fn file(&self, features: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let attrs = 104;
        let ids = attrs + 64 + 16;
        let data = ids + 8;
        let mut bitmap = [0_u64; 4];
        let mut table = Vec::new();
        let mut blobs = Vec::new();
        let after = data + self.data.len() as u64;
        for (number, bytes) in features {
            bitmap[*number as usize / 64] |= 1 << (number % 64);
            let offset = after + 16 * features.len() as u64 + blobs.len() as u64;
            table.extend(words(&[offset, bytes.len() as u64]));
            blobs.extend_from_slice(bytes);
        }
        let header = [104, 80, attrs, 80, data, self.data.len() as u64, 0, 0];
        let head = [b"PERFILE2".to_vec(), words(&header), words(&bitmap)].concat();
        [head, attribute(), words(&[ids, 8, EVENT]), self.data.clone(), table, blobs].concat()
    }

    /// As it goes through a pipe.
    fn pipe(&self) -> Vec<u8> {
        let attribute = record(64, 0, &[attribute(), words(&[EVENT])].concat());
        [b"PERFILE2".to_vec(), words(&[16]), attribute, self.data.clone()].concat()
    }
}

fn bytes_of(capture: &Capture, number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    capture.buffers[number].open().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn session() -> PerfData {
    PerfData::of(&[
        info(),
        mmap2(500, 0x1000, 0x1000, 0, "/bin/a", 0),
        auxtrace(0, 0, 0, &[1; 0x20]),
        aux(0, 500, 100, 0, 0x10, 0),
        mmap2(500, 0x8000, 0x1000, 0x3000, "/lib/b.so", 150),
        aux(0, 500, 200, 0x10, 0x10, 1),
    ])
}

#[test]
fn a_file_and_a_pipe_say_the_same() {
    for bytes in [session().file(&[]), session().pipe()] {
        let capture = Capture::from_perf(bytes, "perf.data").unwrap();
        assert_eq!(capture.buffers.len(), 1);
        assert_eq!(capture.buffers[0].name, "cpu0");
        let starts = [Start { offset: 0, time: Some(100) }, Start { offset: 0x10, time: Some(200) }];
        assert_eq!(capture.buffers[0].starts, starts);
        assert_eq!(bytes_of(&capture, 0), [1; 0x20]);
        assert_eq!(capture.sources.len(), 2);
        assert_eq!(capture.sources[1].id.unwrap().get(), 0x12);
        assert_eq!(capture.contextidr, Some(ContextIdLayout::Tid));
        assert_eq!(capture.event_clock, EventClock::Slices, "there is no conversion of time");
        assert!(
            capture.warnings.iter().any(|warning| warning.contains("filled the buffer")),
            "{:?}",
            capture.warnings
        );
        let events = capture.events.unwrap();
        let log = &events.log().records;
        let mapped: Vec<_> = log
            .iter()
            .filter_map(|record| match &record.item {
                Item::Mapping(state, mapping) => Some((record.time, *state, mapping.image.clone().unwrap())),
                _ => None,
            })
            .collect();
        let expected = [(None, State::Current, "/bin/a"), (Some(150), State::Start, "/lib/b.so")];
        assert_eq!(mapped, expected.map(|(time, state, name)| (time, state, name.into())));
    }
}

#[test]
fn a_file_whose_recorder_was_killed_is_read_to_its_end() {
    let mut bytes = session().file(&[]);
    bytes[48..56].fill(0);
    let capture = Capture::from_perf(bytes, "perf.data").unwrap();
    assert_eq!(bytes_of(&capture, 0), [1; 0x20]);
}

#[test]
fn build_ids_come_from_the_table_of_the_file() {
    let mut id = [0_u8; 24];
    id[..4].copy_from_slice(&[0xAB, 0xCD, 0, 0x12]);
    let entry = record(0, 2, &[&500_u32.to_le_bytes()[..], &id, &padded("/bin/a")].concat());
    let capture = Capture::from_perf(session().file(&[(2, entry)]), "perf.data").unwrap();
    let events = capture.events.unwrap();
    let log = events.log();
    let Item::Mapping(_, mapping) = &log.records[0].item else { panic!("{:?}", log.records[0]) };
    assert_eq!(mapping.build_id.as_deref(), Some("abcd0012"), "zeros at the end are padding");
}

#[test]
fn times_are_those_of_the_counter_where_perf_says_how() {
    let mut session = session();
    // 40 ns each, from 20 on.
    session.data.extend(record(79, 0, &words(&[0, 40, 20])));
    let capture = Capture::from_perf(session.file(&[]), "perf.data").unwrap();
    assert_eq!(capture.event_clock, EventClock::Timestamps);
    assert_eq!(capture.timestamp_frequency, Some(25_000_000));
    assert_eq!(capture.buffers[0].starts[0].time, Some(2), "100 ns");
}

#[test]
fn trace_ids_that_the_kernel_hands_out_come_before_those_of_the_metadata() {
    let hardware_id = |cpu, id: u64| kernel_record(21, 0, &words(&[id]), 10, cpu, 500);
    let mut session = session();
    session.data.extend([hardware_id(0, 0x31), hardware_id(1, 0x32)].concat());
    let capture = Capture::from_perf(session.file(&[]), "perf.data").unwrap();
    assert_eq!(capture.sources[0].id.unwrap().get(), 0x31);
    // Two sinks: an ID means something in its own only.
    let sink = |sink: u64| 1 << 56 | sink << 8 | 0x31;
    let mut session = self::session();
    session.data.extend([hardware_id(0, sink(5)), hardware_id(1, sink(6))].concat());
    let capture = Capture::from_perf(session.file(&[]), "perf.data").unwrap();
    assert_eq!((&capture.sources[0].buffers[..], &capture.sources[1].buffers[..]), (&[0][..], &[][..]));
}

#[test]
fn raw_trace_of_a_thread_belongs_to_the_cpu_that_wrote_it() {
    let session =
        PerfData::of(&[info(), auxtrace(u32::MAX, 501, 0, &[7; 0x18]), aux(1, 501, 100, 0, 0x14, 0x100)]);
    let capture = Capture::from_perf(session.file(&[]), "perf.data").unwrap();
    assert_eq!(
        (capture.buffers[0].name.as_str(), capture.buffers[0].thread),
        ("thread501-cpu1-raw", Some(501))
    );
    assert_eq!(bytes_of(&capture, 0), [7; 0x14], "padding is not trace");
    assert_eq!((&capture.sources[0].buffers[..], &capture.sources[1].buffers[..]), (&[][..], &[0][..]));
}

#[test]
fn an_exec_ends_what_was_mapped_and_a_fork_hands_it_on() {
    let fork = |pid: u32, parent: u32| words(&[pair(pid, parent), pair(pid, parent), 0]);
    let comm = [words(&[pair(500, 500)]), padded("new")].concat();
    let session = PerfData::of(&[
        info(),
        mmap2(500, 0x1000, 0x1000, 0, "/bin/a", 10),
        kernel_record(7, 0, &fork(600, 500), 20, 0, 500),
        kernel_record(3, 1 << 13, &comm, 30, 0, 500),
        mmap2(500, 0x1000, 0x1000, 0, "/bin/new", 40),
        kernel_record(4, 0, &fork(500, 1), 50, 0, 500),
    ]);
    let capture = Capture::from_perf(session.file(&[]), "perf.data").unwrap();
    let events = capture.events.unwrap();
    let log = events.log();
    let mapped: Vec<_> = log
        .records
        .iter()
        .filter_map(|record| match &record.item {
            Item::Mapping(state, mapping) => Some((record.time.unwrap(), *state, mapping.pid)),
            _ => None,
        })
        .collect();
    let (a, b) = (Pid::Process(500), Pid::Process(600));
    use State::{End, Start};
    assert_eq!(mapped, [(10, Start, a), (20, Start, b), (30, End, a), (40, Start, a), (50, End, a)]);
}

#[test]
fn compressed_records_are_one_stream_that_never_ends() {
    // A frame with a window of 1 KiB and blocks as they are: a record lies across two of them.
    let records =
        [mmap2(500, 0x1000, 0x1000, 0, "/bin/a", 10), mmap2(500, 0x5000, 0x1000, 0, "/lib/c.so", 20)]
            .concat();
    let block = |bytes: &[u8]| [&((bytes.len() as u32) << 3).to_le_bytes()[..3], bytes].concat();
    let (first, second) = records.split_at(100);
    let frame = [&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x00][..], &block(first)].concat();
    let session = PerfData::of(&[
        info(),
        record(81, 0, &frame),
        record(81, 0, &block(second)),
        auxtrace(0, 0, 0, &[1; 0x10]),
    ]);
    let capture = Capture::from_perf(session.file(&[]), "perf.data").unwrap();
    assert_eq!(capture.warnings, Vec::<String>::new());
    assert_eq!(capture.events.as_ref().unwrap().log().records.len(), 2);
    assert_eq!(bytes_of(&capture, 0), [1; 0x10], "without AUX records each copy is a piece");
}

#[test]
fn other_trace_and_other_files_are_refused_by_name() {
    let intel = PerfData::of(&[record(70, 0, &words(&[1, 0, 0]))]).file(&[]);
    let refused = Capture::from_perf(intel, "perf.data").unwrap_err().to_string();
    assert!(refused.contains("Intel PT"), "{refused}");
    let none = Capture::from_perf(PerfData::of(&[]).file(&[]), "perf.data").unwrap_err().to_string();
    assert!(none.contains("no CoreSight trace"), "{none}");
    assert!(Capture::from_perf(b"ELF".to_vec(), "x").is_err());
}

#[test]
fn a_file_cut_off_anywhere_is_read_as_far_as_it_goes_or_refused() {
    let bytes = session().file(&[]);
    for length in 0..bytes.len() {
        if let Ok(capture) = Capture::from_perf(bytes[..length].to_vec(), "perf.data") {
            for buffer in &capture.buffers {
                let _ = buffer.open().unwrap().read_to_end(&mut Vec::new());
            }
        }
    }
}

#[test]
fn records_with_wrong_sizes_are_damage_and_not_a_failure() {
    let bytes = session().file(&[]);
    for at in 104..bytes.len() {
        for value in [0, 1, 0x7F, 0xFF] {
            let mut broken = bytes.clone();
            broken[at] = value;
            if let Ok(capture) = Capture::from_perf(broken, "perf.data") {
                for buffer in capture.buffers.iter().take(4) {
                    let _ = buffer.open().unwrap().take(1 << 16).read_to_end(&mut Vec::new());
                }
            }
        }
    }
}

#[test]
fn events_that_share_a_list_of_identifiers_read_it_no_more_often_than_the_file_is_long() {
    let mut file = session().file(&[]);
    let list = file.len() as u64;
    file.extend(words(&[EVENT; 1000]));
    let table = file.len() as u64;
    for _ in 0..500 {
        file.extend([attribute(), words(&[list, 8000])].concat());
    }
    file[24..40].copy_from_slice(&words(&[table, 500 * 80]));
    let capture = Capture::from_perf(file, "perf.data").unwrap();
    let warnings = capture.warnings.join("\n");
    assert!(warnings.contains("lists of identifiers lie over each other"), "{warnings}");
    assert_eq!(capture.buffers[0].starts[1].time, Some(200), "the first event counts");
}

#[test]
fn compressed_records_that_expand_without_end_are_left_out_with_the_option_that_allows_them() {
    // A frame of blocks that repeat a byte: records of 0x0808 bytes that nobody knows, 128 KiB out of each four bytes.
    let block = |last: u32| [(128 << 13 | 1 << 1 | last).to_le_bytes()[..3].to_vec(), vec![8]].concat();
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0x38];
    (0..1000).for_each(|_| frame.extend(block(0)));
    frame.extend(block(1));
    let compressed = record(81, 0, &frame);
    let file = PerfData::of(&[info(), compressed]).file(&[]);
    assert!(file.len() < 6000);
    let capture = Capture::from_perf(file, "perf.data").unwrap();
    let warnings = capture.warnings.join("\n");
    assert!(warnings.contains("compressed records: the rest is left out"), "{warnings}");
    assert!(warnings.contains("--budget BYTES"), "{warnings}");
}

#[test]
fn forks_hand_on_as_many_mappings_as_the_file_allows_for() {
    let mut records = vec![info()];
    records.extend(
        (0..700).map(|number| mmap2(500, 0x10_0000 + number * 0x2000, 0x1000, 0, "/lib/a", number + 1)),
    );
    let fork = |child: u32| words(&[pair(child, 500), pair(child, 500), 0]);
    records.extend((0..700).map(|child| kernel_record(7, 0, &fork(1000 + child), 5000, 0, 500)));
    let capture = Capture::from_perf(PerfData::of(&records).file(&[]), "perf.data").unwrap();
    let warnings = capture.warnings.join("\n");
    assert!(warnings.contains("mappings that forks hand on are left out"), "{warnings}");
    let count = capture.events.unwrap().log().records.len();
    assert!((100_000..400_000).contains(&count), "{count} of {} events", 700 * 700);
}

#[test]
fn every_ring_may_hold_trace_of_every_unit_only_as_far_as_the_file_allows_for() {
    let units: Vec<u64> = (0..2600).flat_map(|cpu| [ETM4, cpu, 0]).collect();
    let mut records = vec![record(70, 0, &[words(&[3, 1, pair(2600, 8), 0]), words(&units)].concat())];
    for cpu in 0..1000 {
        records.extend([auxtrace(cpu, 0, 0, &[0; 16]), aux(cpu, 500, 1, 0, 16, 0)]);
    }
    let error = Capture::from_perf(PerfData::of(&records).file(&[]), "perf.data").unwrap_err().to_string();
    assert!(error.contains("1000 buffers may hold trace of each of 2600 units"), "{error}");
    assert!(error.contains("--budget BYTES"), "{error}");
}

#[test]
fn records_within_features_are_not_followed_into_each_other() {
    let mut inner = Vec::new();
    while inner.len() < 60_000 {
        inner = record(80, 0, &[words(&[134]), inner].concat());
    }
    let capture = Capture::from_perf(PerfData::of(&[info(), inner]).file(&[]), "perf.data").unwrap();
    assert!(capture.events.unwrap().log().records.is_empty());
}
