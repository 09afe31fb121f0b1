//! Sources of one buffer on one time axis.

use backsight::core::TraceId;
use backsight::decode::TimeBounds;
use backsight::frame::{Formatter, FormatterConfig, Framing};
use backsight::itm;
use backsight::stm::{self, Content};
use backsight::{Capture, Event, OpenOptions};

const ITM: u8 = 0x11;
const STM: u8 = 0x12;

/// A package of one buffer with an ITM and an STM.
struct Package(std::path::PathBuf);

impl Package {
    fn new(name: &str, itm: &[u8], stm: &[u8]) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-{}-time-axis-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut formatter = Formatter::new(FormatterConfig::new(Framing::Coresight));
        let mut buffer = Vec::new();
        // In turns, the one that is longer in larger portions.
        let turns = 50;
        for turn in 0..turns {
            for (id, bytes) in [(ITM, itm), (STM, stm)] {
                let portion = bytes.len() * turn / turns..bytes.len() * (turn + 1) / turns;
                formatter
                    .push(TraceId::new(id), &bytes[portion], &mut |bytes| buffer.extend_from_slice(bytes))
                    .unwrap();
            }
        }
        formatter.finish(&mut |bytes| buffer.extend_from_slice(bytes));
        let contents = "[trace]\nmetadata=trace.ini\nbuffer0=data\n";
        let metadata =
            format!("[buffer]\nformat: coresight\n[trace_{ITM}]\nformat: ITM\n[trace_{STM}]\nformat: STP\n");
        std::fs::write(folder.join("contents.ini"), contents).unwrap();
        std::fs::write(folder.join("trace.ini"), metadata).unwrap();
        std::fs::write(folder.join("data"), buffer).unwrap();
        Self(folder)
    }

    fn open(&self) -> Capture {
        Capture::open(&self.0).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn itm_bytes(packets: &[itm::Packet]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (itm::Encoder::new(), Vec::new());
    packets.iter().for_each(|packet| assert!(encoder.put(packet, &mut bytes)));
    bytes
}

fn stm_bytes(packets: &[stm::Packet]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (stm::Encoder::new(), Vec::new());
    packets.iter().for_each(|packet| assert!(encoder.put(packet, &mut bytes)));
    encoder.finish(&mut bytes);
    bytes
}

fn global(time: u32) -> [itm::Packet; 2] {
    [
        itm::Packet::GlobalTimestamp1 { low: time, length: 4, wrapped: true, clock_changed: false },
        itm::Packet::GlobalTimestamp2 { high: 0, wide: false },
    ]
}

/// Messages in the order in which they come: whose, the value, and when.
fn messages(capture: &Capture) -> Vec<(u8, u64, TimeBounds)> {
    let mut found = Vec::new();
    let summary = capture.execution().run_by_time(|item, time| {
        if let Event::Software(message) = item.value
            && message.size > 0
        {
            found.push((item.source.id().get(), message.value, time));
        }
    });
    summary.unwrap_or_else(|error| panic!("{error}"));
    found
}

fn begin() -> Vec<stm::Packet> {
    vec![
        stm::Packet::new(Content::Async { found: false }),
        stm::Packet::new(Content::Version { value: 3, more: None }),
        stm::Packet::new(Content::Master8(1)),
    ]
}

fn data(value: u64) -> stm::Packet {
    stm::Packet::new(Content::Data { value, nibbles: 8, marked: false })
}

#[test]
fn messages_of_two_sources_come_in_the_order_of_their_times() {
    let byte = |value| itm::Packet::Instrumentation { port: 0, value, size: 1 };
    let mut itm = vec![itm::Packet::Sync];
    itm.extend(global(100));
    itm.push(byte(1));
    itm.extend(global(200));
    itm.push(byte(2));
    itm.extend(global(300));
    let stm =
        [begin(), vec![data(10).at(12, 50), data(11).at(12, 150), data(12), data(13).at(12, 250)]].concat();
    let package = Package::new("order", &itm_bytes(&itm), &stm_bytes(&stm));
    let between = |earliest, latest| TimeBounds {
        earliest: Some(earliest),
        latest: Some(latest),
        estimate: Some(earliest),
    };
    let expected = [
        (STM, 10, between(50, 50)),
        (ITM, 1, between(100, 200)),
        (STM, 11, between(150, 150)),
        (STM, 12, between(150, 250)),
        (ITM, 2, between(200, 300)),
        (STM, 13, between(250, 250)),
    ];
    assert_eq!(messages(&package.open()), expected);
}

#[test]
fn a_source_without_time_holds_up_nobody_and_keeps_its_order() {
    let byte = |value| itm::Packet::Instrumentation { port: 0, value, size: 1 };
    let count = 300_000;
    let mut itm = vec![itm::Packet::Sync];
    itm.extend((0..count).map(|number| byte(number & 0xFF)));
    let stamped = (0..2000).map(|number| data(number).at(12, 1000 + number));
    let stm: Vec<stm::Packet> = begin().into_iter().chain(stamped).collect();
    let package = Package::new("untimed", &itm_bytes(&itm), &stm_bytes(&stm));
    let found = messages(&package.open());
    let of = |id| found.iter().filter(move |(source, ..)| *source == id);
    assert_eq!((of(ITM).count(), of(STM).count()), (count as usize, 2000));
    assert!(of(ITM).zip(0u64..).all(|((_, value, _), number)| *value == number & 0xFF));
    assert!(of(STM).is_sorted_by_key(|(_, value, _)| *value));
    assert!(of(ITM).all(|(_, _, time)| *time == TimeBounds::default()));
}

#[test]
fn random_streams_keep_the_order_of_each_source_and_of_exact_times() {
    let mut random = backsight_testing::Random(7);
    let mut stm = begin();
    let (mut time, mut value) = (0, 0);
    for _ in 0..5000 {
        value += 1;
        time += random.below(5);
        stm.push(if random.below(3) == 0 { data(value).at(12, time) } else { data(value) });
    }
    let mut itm = vec![itm::Packet::Sync];
    let mut now = 1;
    for number in 0..5000 {
        itm.push(itm::Packet::Instrumentation { port: 1, value: number, size: 4 });
        if random.below(4) == 0 {
            now += random.below(9) as u32;
            itm.extend(global(now));
        }
    }
    let package = Package::new("random", &itm_bytes(&itm), &stm_bytes(&stm));
    let found = messages(&package.open());
    assert_eq!(found.len(), 10_000);
    for id in [ITM, STM] {
        let values = found.iter().filter(|(source, ..)| *source == id).map(|(_, value, _)| *value);
        assert!(values.is_sorted());
    }
    assert!(found.iter().filter_map(|(_, _, time)| time.estimate).is_sorted());
    assert!(
        found.iter().all(|(_, _, time)| time.earliest.is_none()
            || time.latest.is_none_or(|end| time.earliest <= Some(end)))
    );
}

#[test]
fn an_itm_without_synchronisation_is_read_where_that_is_said() {
    let bytes = itm_bytes(&[itm::Packet::Instrumentation { port: 0, value: 0x41, size: 1 }]);
    let open = |settings: &[&str]| {
        let options =
            settings.iter().fold(OpenOptions::new().protocol("itm"), |options, one| options.config(one));
        options.bytes(bytes.clone()).unwrap()
    };
    assert_eq!(messages(&open(&["sync=none"])).len(), 1);
    let silent = open(&[]);
    assert_eq!(messages(&silent), []);
    let summary = silent.execution().run(|_| ()).unwrap().to_string();
    assert!(summary.contains("sync=none"), "{summary}");
}
