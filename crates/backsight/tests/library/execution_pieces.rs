//! Execution of one source on several threads, for RISC-V: exactly what a single thread gives. Streams are real ones, over and
//! over again.

use backsight::core::Located;
use backsight::decode::{Consumer, Cut};
use backsight::riscv::encap::{Encapsulated, Framer, Framing, Kind};
use backsight::riscv::etrace::{BranchMap, Options, Params, Start, Support, encode};
use backsight::riscv::{etrace, ntrace};
use backsight::{Capture, Event, Item, OpenOptions};
use backsight_testing::{Random, corpus, skipped};

use crate::pieces::{check, damage};
use crate::sifive;

/// A stream, and how it is opened.
pub struct Stream {
    pub name: String,
    options: OpenOptions,
    pub bytes: Vec<u8>,
}

impl Stream {
    /// One that comes again and again.
    fn new(name: &str, options: OpenOptions, bytes: &[u8]) -> Self {
        let times = LENGTH.div_ceil(bytes.len());
        Self { name: name.to_owned(), options, bytes: bytes.repeat(times) }
    }

    pub fn open(&self, bytes: Vec<u8>) -> Capture {
        self.options.clone().bytes(bytes).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

const LENGTH: usize = 60_000;

fn e_trace(framing: &str, settings: &[&str], images: &[String]) -> OpenOptions {
    let options = OpenOptions::new().protocol("etrace").framing(framing);
    let options = images.iter().fold(options, |options, image| options.image(image));
    settings.iter().fold(options, |options, setting| options.config(setting))
}

/// Loops of two instructions, one after the other, from 0x1000 on: c.nop; beq t0, x0, .-2
fn loops() -> String {
    let file = std::env::temp_dir().join(format!("backsight-loops-{}", std::process::id()));
    std::fs::write(&file, [1, 0, 0xE3, 0x8F, 0x02, 0xFE].repeat(1 << 16)).unwrap();
    format!("{}@0x1000", file.display())
}

/// A hart goes from loop to loop. It announces an option, and synchronises every now and then.
#[derive(Clone, Default)]
struct Hart {
    at: u64,
    packets: u64,
}

impl Hart {
    fn next(&mut self, random: &mut Random) -> etrace::Packet {
        self.packets += 1;
        match self.packets {
            1 => {
                let options = Options { full_address: true, ..Options::default() };
                etrace::Packet::Support(Support { ienable: true, options, ..Support::default() })
            }
            n if n % 16 == 2 => {
                let address = (0x1000 + 6 * self.at) >> 1;
                etrace::Packet::Start(Start { branch: true, address, ..Start::default() })
            }
            _ => {
                let bits = (1u64 << random.below(64)) as u32 & 0x7FFF_FFFF;
                self.at += u64::from(bits.count_ones());
                etrace::Packet::Branches { map: BranchMap::new(31, bits), address: None }
            }
        }
    }
}

/// Harts in turns; if there are several, the last of them begins early and does not go on.
fn harts(harts: u16, settings: &[&str]) -> Stream {
    let (mut framer, mut bytes) = (Framer::new(Framing::Reference { hart_bits: 8 }), Vec::new());
    let (mut random, mut all) = (Random(7), vec![Hart::default(); usize::from(harts)]);
    while bytes.len() < LENGTH {
        let source = random.below(harts.into()) as u16;
        let hart = &mut all[usize::from(source)];
        for _ in 0..1 + random.below(5) {
            if harts > 1 && source == harts - 1 && hart.packets > 40 {
                break;
            }
            let payload = encode(&hart.next(&mut random), &Params::default(), &Options::default()).to_vec();
            let packet =
                Encapsulated { source, kind: Kind::Instruction, flow: 0, time: None, payload: &payload };
            framer.frame(&packet, &mut bytes).unwrap();
        }
    }
    let settings: Vec<_> = ["hart_bits=8"].iter().chain(settings).copied().collect();
    Stream { name: format!("{harts} harts"), options: e_trace("reference", &settings, &[loops()]), bytes }
}

/// Made here, and with an option that is known before it is announced.
pub fn made() -> Vec<Stream> {
    vec![harts(1, &[]), harts(3, &[]), harts(4, &["full_address=1"])]
}

pub fn of_corpus() -> Vec<Stream> {
    let Some(corpus) = corpus() else { return Vec::new() };
    let mut streams = Vec::new();
    let text = |path: std::path::PathBuf| path.display().to_string();
    let read = |path: &str| std::fs::read(corpus.join(path)).unwrap();
    for kind in ["itype3", "itype4"] {
        for program in ["dhrystone", "median"] {
            let file = format!("etrace/refflow/{kind}/{program}.te_inst_raw");
            let parameters = text(corpus.join(format!("etrace/refflow/{kind}/hardware_64.scf")));
            let images = [
                text(corpus.join(format!("etrace/refflow/elf/{program}.riscv"))),
                format!("{}@0x1000", text(corpus.join("etrace/refflow/elf/bootrom64.bin"))),
            ];
            streams.push(Stream::new(&file, e_trace("reference", &[&parameters], &images), &read(&file)));
        }
    }
    for (file, program) in [("gpios_all", "gpios_all"), ("hello_culsans", "hello_culsans"), ("l1_test", "l1")]
    {
        let image = text(corpus.join(format!("etrace/pulp/{program}.riscv")));
        let file = format!("etrace/pulp/{file}.packets.bin");
        streams.push(Stream::new(&file, e_trace("pulp", &[], &[image]), &read(&file)));
    }
    let options = OpenOptions::new().protocol("ntrace").image(&text(corpus.join("ntrace/test.elf")));
    streams.push(Stream::new("test-NEX", options, &read("ntrace/test-NEX.bin")));
    for case in sifive::cases("pcs.gz") {
        let bytes = std::fs::read(case.capture()).unwrap();
        streams.push(Stream::new(&case.name(), case.options(&["dialect=sifive"]), &bytes));
    }
    streams.push(n_trace_of_harts(&text(corpus.join("ntrace/test.elf")), &read("ntrace/test-NEX.bin")));
    streams
}

/// Three harts that execute the same, in turns.
fn n_trace_of_harts(image: &str, bytes: &[u8]) -> Stream {
    let mut packets = Vec::new();
    let mut decoder = ntrace::Decoder::new(&ntrace::Config::default());
    decoder.feed(bytes, &mut |packet: Located<ntrace::Packet>| packets.push(packet.value));
    let mut encoder = ntrace::Encoder::new(&ntrace::Config::with_source_bits(4));
    let (mut bytes, mut random, mut next) = (Vec::new(), Random(3), [0; 3]);
    while bytes.len() < LENGTH {
        let source = random.below(3) as usize;
        for _ in 0..1 + random.below(5) {
            let packet = packets[next[source] % packets.len()];
            encoder.put(&ntrace::Packet { source: source as u16, ..packet }, &mut bytes);
            next[source] += 1;
        }
    }
    let options = OpenOptions::new().protocol("ntrace").config("source_bits=4").image(image);
    Stream { name: "N-Trace of harts".to_owned(), options, bytes }
}

const SIZES: [usize; 4] = [1, 2_000, 9_000, 40_000];

fn check_whole(stream: &Stream) {
    let capture = stream.open(stream.bytes.clone());
    assert!(capture.execution().threads(2).piece_size(1).is_in_pieces().unwrap(), "{}", stream.name);
    assert_eq!(check(&capture, &SIZES, &stream.name), stream.bytes.len() as u64);
}

fn check_damaged(stream: &Stream, random: &mut Random) {
    for round in 0..3 {
        let mut bytes = stream.bytes.clone();
        (0..1 + 6 * round).for_each(|_| damage(&mut bytes, random));
        check(&stream.open(bytes), &SIZES[..3], &format!("{}, damaged, {round}", stream.name));
    }
}

#[test]
fn execution_of_made_streams_in_pieces_is_that_of_the_whole() {
    let mut random = Random(14);
    for stream in made() {
        check_whole(&stream);
        check_damaged(&stream, &mut random);
    }
}

#[test]
fn execution_of_real_streams_in_pieces_is_that_of_the_whole() {
    let streams = of_corpus();
    if streams.is_empty() {
        skipped("no corpus");
    }
    let mut random = Random(15);
    for stream in streams {
        check_whole(&stream);
        check_damaged(&stream, &mut random);
    }
}

/// Counts cuts.
#[derive(Default)]
struct Cuts(Vec<Cut>);

impl Consumer<Event> for Cuts {
    fn item(&mut self, _item: Item<'_, Event>) {}

    fn cut(&mut self, cut: Cut) {
        self.0.push(cut);
    }
}

fn cuts_of(stream: &Stream, size: usize) -> usize {
    let capture = stream.open(stream.bytes.clone());
    let buffer = &capture.buffers()[0];
    let id = buffer.sources().next().unwrap().id();
    let mut cuts = Cuts::default();
    capture.execution().find_cuts(buffer.name(), id, size, &mut cuts).unwrap();
    cuts.0.len()
}

/// They synchronise too seldom for such small pieces, or not at all; or what a follower knows depends on calls that are long past.
const SELDOM: [&str; 6] =
    ["itype4/dhrystone", "pulp", "event-all", "nls", "pc-sample-itc", "N-Trace of harts"];

/// Where followers came to know the same nowhere, pieces would be right all the same, and of no use.
#[test]
fn streams_are_cut() {
    let streams: Vec<_> = made().into_iter().chain(of_corpus()).collect();
    let mut uncut = Vec::new();
    for stream in streams.iter().filter(|stream| !SELDOM.iter().any(|name| stream.name.contains(name))) {
        let most = stream.bytes.len() / 2_000;
        let cuts = cuts_of(stream, 1);
        println!("{}: {cuts} cuts, {} at most", stream.name, most);
        if cuts < most / 4 {
            uncut.push(&stream.name);
        }
    }
    assert!(uncut.is_empty(), "{uncut:?}");
}
