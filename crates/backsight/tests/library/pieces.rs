//! One source on several threads: exactly what a single thread gives.

use std::io::Read;
use std::path::{Path, PathBuf};

use backsight::decode::{Consumer, Summary, Written};
use backsight::flow::PathId;
use backsight::{Buffer, Capture, Error, Event, Item};
use backsight_testing::{Random, corpus, repository, skipped};

/// Whatever should be the same of an item.
type Same = (u16, u64, u32, Option<u64>, Event);

fn same(item: &Item<'_, Event>) -> Same {
    (item.sub_source, item.offset, item.length, item.position(), item.value)
}

fn items_of(
    capture: &Capture,
    (buffer, id): (&str, u64),
    threads: usize,
    piece: usize,
) -> (Vec<Same>, Summary) {
    let decode = capture.execution().buffer(buffer).id(id).threads(threads).piece_size(piece);
    let keep = |items: &mut Vec<Same>, item: Item<'_, Event>| items.push(same(&item));
    let (summary, states) = decode.reduce(|_| Vec::new(), keep, |items, later| items.extend(later)).unwrap();
    (states.into_iter().flat_map(|(_, items)| items).collect(), summary)
}

/// Decodes every source of a capture alone, in pieces of many sizes. Gives the bytes of all.
pub fn check(capture: &Capture, sizes: &[usize], what: &str) -> u64 {
    let mut bytes = 0;
    for buffer in capture.buffers() {
        for source in buffer.sources().filter(|source| source.is_decoded()) {
            let id = u64::from(source.id().get());
            let (expected, summary) = items_of(capture, (buffer.name(), id), 1, 1);
            bytes += summary.accounting().total();
            for (&size, threads) in sizes.iter().zip([2, 3, 2, 5].into_iter().cycle()) {
                let (given, of_pieces) = items_of(capture, (buffer.name(), id), threads, size);
                let first = expected.iter().zip(&given).position(|(one, other)| one != other);
                let counts = (expected.len(), given.len());
                assert!(expected == given, "{what}, {id:#x}, pieces of {size}: {counts:?}, {first:?}");
                assert_eq!(of_pieces.to_string(), summary.to_string(), "{what}, {id:#x}, pieces of {size}");
            }
        }
    }
    bytes
}

/// The captures of a folder that can be read.
pub fn captures(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries
        .filter(|path| path.is_dir())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let inner = path.join("capture");
            (name, if inner.is_dir() { inner } else { path })
        })
        .collect();
    all.sort();
    all
}

const SIZES: [usize; 4] = [1, 5_000, 20_000, 70_000];

#[test]
fn pieces_of_bundled_captures_give_what_the_whole_gives() {
    for (name, path) in captures(&repository().join("testdata/captures")) {
        check(&Capture::open(path).unwrap(), &SIZES[..2], &name);
    }
}

#[test]
fn pieces_of_real_captures_give_what_the_whole_gives() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut bytes = 0;
    for (name, path) in captures(&corpus.join("opencsd")) {
        // Some folders are of captures that are described wrongly on purpose.
        if let Ok(capture) = Capture::open(&path) {
            bytes += check(&capture, &SIZES, &name);
        }
    }
    assert!(bytes > 500_000, "{bytes}");
}

fn bytes_of(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = Vec::new();
    buffer.open().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Damages bytes in one place.
pub fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() as u64 - 50) as usize;
    match random.below(3) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at..at + 40].fill(random.next() as u8),
        _ => drop(bytes.drain(at..at + 1 + random.below(40) as usize)),
    }
}

/// A copy of a capture whose trace is damaged in a few places.
pub fn damaged(from: &Path, to: &Path, random: &mut Random) {
    let capture = Capture::open(from).unwrap();
    let traces: Vec<_> = capture.buffers().iter().map(bytes_of).collect();
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 100 && traces.contains(&bytes) {
            (0..10).for_each(|_| damage(&mut bytes, random));
        }
        std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

#[test]
fn pieces_of_damaged_captures_give_what_the_whole_gives() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut random = Random(12);
    let folder = std::env::temp_dir().join(format!("backsight-pieces-{}", std::process::id()));
    for name in ["a55-test-tpiu", "juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1", "q_elem"] {
        for round in 0..4 {
            let to = folder.join(format!("{name}-{round}"));
            damaged(&corpus.join("opencsd").join(name).join("capture"), &to, &mut random);
            check(&Capture::open(&to).unwrap(), &[1, 9_000], &format!("{name}, damaged, {round}"));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A line an item.
#[derive(Default)]
struct Lines {
    count: u64,
    is_local: bool,
    text: Vec<u8>,
}

impl Consumer<Event> for Lines {
    fn item(&mut self, item: Item<'_, Event>) {
        self.count += 1;
        let number = if self.is_local { 0 } else { self.count };
        self.text.extend(format!("{number} {:?}\n", same(&item)).bytes());
    }

    fn finish(&mut self) {
        self.text.extend_from_slice(b"the end\n");
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }

    fn can_join(&self) -> bool {
        self.is_local
    }
}

fn largest() -> Option<Capture> {
    Some(Capture::open(corpus()?.join("opencsd/cc1-head/capture")).unwrap())
}

#[test]
fn what_is_written_of_pieces_is_what_is_written_of_the_whole() {
    let Some(capture) = largest() else { return skipped("no corpus") };
    for is_local in [false, true] {
        let of = |threads| {
            let mut all = Vec::new();
            let decode = capture.execution().threads(threads).piece_size(8_000);
            let write = |written: Written<'_>| {
                if let Written::Text(text) = written {
                    all.extend_from_slice(text);
                }
                Ok::<_, Error>(())
            };
            let summary = decode.write(|_| Ok(Lines { is_local, ..Lines::default() }), write).unwrap();
            (all, summary.to_string())
        };
        let (one, several) = (of(1), of(2));
        assert!(one.0.ends_with(b"the end\n"));
        assert!(one == several);
    }
}

/// Ranges and instructions, counted by paths where there are any.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    ranges: u64,
    instructions: u64,
    /// Ranges of paths.
    of_paths: u64,
}

impl Consumer<Event> for Counted {
    fn item(&mut self, item: Item<'_, Event>) {
        if let Event::Range(range) = item.value {
            self.ranges += 1;
            self.instructions += u64::from(range.instructions);
        }
    }

    fn path<'a>(&mut self, _: PathId, _: u16, items: impl Iterator<Item = Item<'a, Event>>) {
        let before = self.ranges;
        items.for_each(|item| self.item(item));
        self.of_paths += self.ranges - before;
    }

    fn can_join(&self) -> bool {
        true
    }

    fn join(&mut self, later: Self) {
        self.ranges += later.ranges;
        self.instructions += later.instructions;
        self.of_paths += later.of_paths;
    }
}

#[test]
fn states_that_take_paths_add_up_to_that_of_the_whole() {
    let Some(capture) = largest() else { return skipped("no corpus") };
    let of = |threads| {
        let decode = capture.execution().positions(false).threads(threads).piece_size(8_000);
        let (summary, sums) = decode.consume(|_| Counted::default()).unwrap();
        let [(_, counted)] = <[_; 1]>::try_from(sums).unwrap();
        (summary.to_string(), counted)
    };
    let (one, several) = (of(1), of(2));
    assert!(several.1.of_paths > 100_000, "{several:?}");
    assert_eq!(
        (several.0, several.1.ranges, several.1.instructions),
        (one.0, one.1.ranges, one.1.instructions)
    );
}

#[test]
fn what_is_counted_of_pieces_adds_up() {
    let Some(capture) = largest() else { return skipped("no corpus") };
    let of = |threads| {
        let decode = capture.execution().threads(threads).piece_size(8_000);
        let add = |sum: &mut (u64, u64), item: Item<'_, Event>| {
            if let Event::Range(range) = item.value {
                *sum = (sum.0 + 1, sum.1 + u64::from(range.instructions));
            }
        };
        let merge = |sum: &mut (u64, u64), other: (u64, u64)| *sum = (sum.0 + other.0, sum.1 + other.1);
        let (summary, sums) = decode.reduce(|_| (0, 0), add, merge).unwrap();
        let sums: Vec<_> = sums.into_iter().map(|(source, sum)| (source.name().to_owned(), sum)).collect();
        (summary.to_string(), sums)
    };
    let one = of(1);
    assert!(one.1[0].1.1 > 1_000_000);
    assert_eq!(of(2), one);
}

#[test]
fn who_has_enough_of_a_source_in_pieces_gets_no_more() {
    let Some(capture) = largest() else { return skipped("no corpus") };
    let mut left = 3;
    let write = |written: Written<'_>| {
        if let Written::Text(_) = written {
            left -= 1;
        }
        if left > 0 { Ok(()) } else { Err(Error::Absent("enough".to_owned())) }
    };
    let decode = capture.execution().threads(2).piece_size(8_000);
    let written = decode.write(|_| Ok(Lines { is_local: true, ..Lines::default() }), write);
    assert!(written.is_err_and(|error| error.to_string().contains("enough")) && left == 0);
}

/// A snapshot of two trace units that share a buffer of so many frames: the first one's, but for this one.
fn snapshot_of_two(folder: &Path, frames: usize, of_second: Option<usize>) -> Capture {
    let device = |id: u8| {
        format!(
            "[device]\nname=ETM_{id}\nclass=trace_source\ntype=ETM4\n[regs]\nTRCTRACEIDR={id}\nTRCCONFIGR=1\n\
             TRCIDR0=0x28000EA1\nTRCIDR2=0x488\n"
        )
    };
    let snapshot =
        "[snapshot]\nversion=1.0\n[device_list]\ndevice0=1.ini\ndevice1=2.ini\n[trace]\nmetadata=trace.ini\n";
    let trace = "[trace_buffers]\nbuffers=buffer0\n[buffer0]\nname=ETB_0\nfile=data.bin\nformat=coresight\n\
        [source_buffers]\nETM_1=ETB_0\nETM_2=ETB_0\n";
    let mut data = vec![0; 16 * frames];
    let mut name = |frame: usize, id: u8| data[16 * frame] = id << 1 | 1;
    name(0, 1);
    if let Some(frame) = of_second {
        name(frame, 2);
        if frame + 1 < frames {
            name(frame + 1, 1);
        }
    }
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in
        [("snapshot.ini", snapshot), ("trace.ini", trace), ("1.ini", &device(1)), ("2.ini", &device(2))]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("data.bin"), data).unwrap();
    Capture::open(folder).unwrap()
}

#[test]
fn a_source_is_not_alone_if_another_has_one_frame_anywhere() {
    let folder = std::env::temp_dir().join(format!("backsight-alone-{}", std::process::id()));
    let frames = 70_001;
    let is_alone = |of_second, threads| {
        let capture = snapshot_of_two(&folder, frames, of_second);
        capture.execution().threads(threads).piece_size(1_000).is_in_pieces().unwrap()
    };
    for threads in [2, 3, 7] {
        assert!(is_alone(None, threads));
        // Threads look at parts of whole blocks, of 2^14 frames.
        for frame in [0, 1, (1 << 14) - 1, 1 << 14, 3 << 14, (4 << 14) - 1, 4 << 14, frames - 1] {
            assert!(!is_alone(Some(frame), threads), "{frame}, {threads} threads");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
