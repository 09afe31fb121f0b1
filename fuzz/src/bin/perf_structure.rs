//! perf.data by its structure: headers, tables, records of every kind and features are well-formed, and their fields are what
//! somebody would write, or what nobody should. Whatever the file says, it is opened or refused, the memory that it takes is
//! bounded by its size, and every piece of a buffer can be read.
#![no_main]

use backsight_capture::Capture;
use std::io::Read;

/// Most events for a byte of the file, and for any file.
const EVENTS_FOR_A_BYTE: u64 = 1;
const LEAST_EVENTS: u64 = 1 << 19;

/// Takes decisions from bytes; zeros when there are none left.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// A number that fits, that lies at a border, or that is anything.
    fn number(&mut self) -> u64 {
        let choice = self.byte();
        let small = u64::from(self.byte());
        match choice % 8 {
            0 | 1 => small,
            2 => small * 8,
            3 => 0x1000 * small,
            4 => 0x5800_0000_0000 - 0x1000 * small,
            5 => u64::MAX - small,
            6 => 1_u64.rotate_left(u32::from(choice / 8) * 7 + small as u32),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// The number of a process, a thread or a CPU.
    fn identity(&mut self) -> u32 {
        let choice = self.byte();
        if choice == 0xFF { u32::MAX } else { u32::from(choice % 9) }
    }

    fn pair(&mut self) -> u64 {
        u64::from(self.identity()) | u64::from(self.identity()) << 32
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte());
        (0..length).map(|_| self.byte()).collect()
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

/// A record, with a size that may lie.
fn record(kind: u32, misc: u16, body: &[u8], lie: u16) -> Vec<u8> {
    let size = (body.len() as u16).wrapping_add(8).wrapping_add(lie);
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// The description of some trace units, sound or not.
fn info(choices: &mut Choices<'_>) -> Vec<u8> {
    let count = u64::from(choices.byte() % 5);
    let mut all = vec![3, u64::from(choices.byte() % 4), count | 8 << 32, u64::from(choices.byte() & 1)];
    for cpu in 0..count {
        let magic = [0x3030_3030_3030_3030, 0x4040_4040_4040_4040, 0x5050_5050_5050_5050, 7];
        let parameters = u64::from(choices.byte() % 12);
        all.extend([magic[usize::from(choices.byte()) % 4], cpu, parameters]);
        all.extend((0..parameters).map(|_| choices.number()));
    }
    words(&all)
}

/// A zstd frame: bytes as they are, and bytes that are repeated.
fn frame(choices: &mut Choices<'_>, records: &[u8]) -> Vec<u8> {
    let block = |size: usize, kind: u32| ((size as u32) << 3 | kind << 1).to_le_bytes()[..3].to_vec();
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0x38];
    for part in records.chunks(usize::from(choices.byte()) * 16 + 64) {
        frame.extend([block(part.len(), 0), part.to_vec()].concat());
    }
    for _ in 0..choices.byte() {
        frame.extend([block(128 << 10, 1), vec![choices.byte()]].concat());
    }
    frame
}

/// What follows the header of a record of this kind.
fn body(choices: &mut Choices<'_>, kind: u32, depth: u32) -> Vec<u8> {
    match kind {
        1 | 10 => {
            let mut fields = vec![choices.pair(), choices.number(), choices.number(), choices.number()];
            if kind == 10 {
                fields.extend([choices.number(), 0, 0, u64::from(choices.byte() % 8)]);
            }
            [words(&fields), padded(choices.bytes())].concat()
        }
        3 => [words(&[choices.pair()]), padded(choices.bytes())].concat(),
        4 | 7 => words(&[choices.pair(), choices.pair(), choices.number()]),
        11 => words(&[choices.number(), choices.number(), u64::from(choices.byte() % 16)]),
        20 => {
            let code = choices.bytes();
            let sizes = [0_u16.to_le_bytes(), (code.len() as u16).to_le_bytes()].concat();
            [words(&[choices.number()]), sizes, code].concat()
        }
        64 => {
            let ids: Vec<u64> = (0..choices.byte()).map(|_| u64::from(choices.byte() % 9)).collect();
            [attribute(choices), words(&ids)].concat()
        }
        70 => info(choices),
        79 => words(&[choices.number(), choices.number(), choices.number()]),
        80 => [words(&[u64::from(choices.byte())]), records(choices, depth + 1)].concat(),
        81 => {
            let records = records(choices, depth + 1);
            frame(choices, &records)
        }
        _ => choices.bytes(),
    }
}

/// Records one after the other.
fn records(choices: &mut Choices<'_>, depth: u32) -> Vec<u8> {
    const KINDS: [u32; 24] =
        [1, 2, 3, 4, 7, 7, 9, 10, 10, 10, 11, 11, 11, 12, 15, 20, 21, 64, 67, 70, 71, 71, 80, 81];
    let mut all = Vec::new();
    let count = if depth < 3 { choices.byte() } else { 0 };
    for _ in 0..count {
        if choices.is_over() || all.len() > 1 << 20 {
            break;
        }
        let kind = match choices.byte() {
            other @ 0xF0.. => u32::from(other),
            choice => KINDS[usize::from(choice) % KINDS.len()],
        };
        if kind == 71 {
            let trace = choices.bytes();
            let size = if choices.byte() == 0xFF { choices.number() } else { trace.len() as u64 };
            let place = [size, choices.number(), 0, choices.pair(), choices.pair()];
            all.extend([record(71, 0, &words(&place), 0), trace].concat());
            continue;
        }
        let mut body = body(choices, kind, depth);
        if kind < 64 {
            // Thread, time, CPU and identifier.
            let event = u64::from(choices.byte() % 9);
            body.extend(words(&[choices.pair(), choices.number(), u64::from(choices.identity()), event]));
        }
        body.truncate(60_000);
        let misc = u16::from_le_bytes([choices.byte() & 7, choices.byte()]);
        let lie = if choices.byte() == 0xFF { u16::from(choices.byte()) } else { 0 };
        let one = record(kind, misc, &body, lie);
        // Once, or again and again.
        let times = if choices.byte() > 0xF8 { usize::from(choices.byte()) } else { 1 };
        all.extend(one.repeat(times));
    }
    all
}

fn attribute(choices: &mut Choices<'_>) -> Vec<u8> {
    let sample = if choices.byte() & 7 == 0 { choices.number() } else { 1 << 1 | 1 << 2 | 1 << 7 | 1 << 16 };
    words(&[8 | 64 << 32, 0, 0, sample, 0, 1 << 18, 0, 0])
}

/// A file with tables, whose sections may lie over each other.
fn file(choices: &mut Choices<'_>) -> Vec<u8> {
    let ids: Vec<u64> = (0..choices.byte()).map(|_| u64::from(choices.byte() % 9)).collect();
    let count = usize::from(choices.byte() % 64);
    let (attrs, entry) = (104_u64, 80);
    let at = attrs + entry * count as u64;
    let mut table = Vec::new();
    for _ in 0..count {
        let place = if choices.byte() == 0xFF {
            [choices.number(), choices.number()]
        } else {
            [at, 8 * ids.len() as u64]
        };
        table.extend([attribute(choices), words(&place)].concat());
    }
    let data = [record(70, 0, &info(choices), 0), records(choices, 0)].concat();
    let start = at + 8 * ids.len() as u64;
    let (mut bitmap, mut places, mut blobs) = ([0_u64; 4], Vec::new(), Vec::new());
    let numbers: Vec<u8> = [2, 3, 11, 129, 134].into_iter().filter(|_| choices.byte() & 1 != 0).collect();
    let after = start + data.len() as u64 + 16 * numbers.len() as u64;
    for number in numbers {
        bitmap[usize::from(number) / 64] |= 1 << (number % 64);
        let blob = if number == 134 { records(choices, 2) } else { choices.bytes() };
        let size = if choices.byte() == 0xFF { choices.number() } else { blob.len() as u64 };
        places.extend(words(&[after + blobs.len() as u64, size]));
        blobs.extend(blob);
    }
    let header = [104, entry, attrs, entry * count as u64, start, data.len() as u64, 0, 0];
    [b"PERFILE2".to_vec(), words(&header), words(&bitmap), table, words(&ids), data, places, blobs].concat()
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let bytes = match choices.byte() % 4 {
        0 => [b"PERFILE2".to_vec(), words(&[16]), records(&mut choices, 0)].concat(),
        _ => file(&mut choices),
    };
    let length = bytes.len() as u64;
    let Ok(capture) = Capture::from_perf(bytes, "perf.data") else { return };
    let events = capture.events.as_ref().map_or(0, |events| events.log().records.len() as u64);
    assert!(events <= LEAST_EVENTS + EVENTS_FOR_A_BYTE * length, "{events} events of {length} bytes");
    let mut all = 0;
    for buffer in &capture.buffers {
        let increasing = buffer.starts.windows(2).all(|pair| pair[0].offset <= pair[1].offset);
        assert!(increasing, "pieces are in the order of the buffer");
        all += buffer.length().unwrap_or(0);
    }
    // A ring that is overwritten may be said four times, by a thread and by a CPU.
    assert!(all <= 8 * length, "{all} bytes of trace of {length} bytes");
    for buffer in capture.buffers.iter().take(4) {
        if let Ok(mut stream) = buffer.open() {
            let _ = stream.by_ref().take(1 << 20).read_to_end(&mut Vec::new());
        }
    }
});
