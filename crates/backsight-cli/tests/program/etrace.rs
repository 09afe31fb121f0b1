//! The program on RISC-V trace: the command lines that people type, on captures of other encoders.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backsight_riscv::encap::{Encapsulated, Framer, Framing, Kind};
use backsight_riscv::etrace::{self, ImplicitReturn, Options, Packet, Params, Start, Support};
use backsight_riscv::ingress::{Block, Itype};
use backsight_testing::{corpus, gunzip};
use backsight_unit::etrace::{Settings as TracerSettings, Tracer};
use serde_json::Value;

fn backsight(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backsight")).args(arguments).output().expect("the program runs")
}

/// What it wrote; it must have succeeded.
fn written(arguments: &[&str]) -> String {
    let output = backsight(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(arguments: &[&str]) -> String {
    let output = backsight(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a name")
}

/// A folder for this test's files.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Every stream of the reference flow: its folder, its name.
fn streams(root: &Path) -> Vec<(PathBuf, String)> {
    let mut streams = Vec::new();
    for kind in ["itype3", "itype4"] {
        for entry in std::fs::read_dir(root.join(kind)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            if let Some(name) = name.strip_suffix(".te_inst_raw") {
                streams.push((root.join(kind), name.to_owned()));
            }
        }
    }
    assert!(!streams.is_empty());
    streams
}

/// A cell of the reference flow's CSV as a number.
fn cell(column: &str, cell: &str) -> u64 {
    match column {
        "address" | "tval" => u64::from_str_radix(cell, 16).expect("hexadecimal"),
        _ => cell.parse().expect("decimal"),
    }
}

#[test]
fn packets_have_the_fields_of_the_reference_flow() {
    let Some(corpus) = corpus() else { return };
    for (folder, name) in streams(&corpus.join("etrace/refflow")) {
        let trace = folder.join(format!("{name}.te_inst_raw"));
        let parameters = folder.join("hardware_64.scf");
        let (trace, parameters) = (text(&trace), text(&parameters));
        let listing = written(&[
            "packets",
            trace,
            "--protocol",
            "etrace",
            "--framing",
            "reference",
            "--config",
            parameters,
            "--format",
            "json",
        ]);
        let expected =
            String::from_utf8(gunzip(&folder.join(format!("{name}.te_inst.csv.gz")))).expect("text");
        let mut rows = expected.lines();
        let columns: Vec<&str> = rows.next().expect("a header").split(',').collect();
        let mut packets = 0;
        for (row, line) in rows.zip(listing.lines()) {
            let object: Value = serde_json::from_str(line).expect("JSON");
            for (column, value) in columns.iter().zip(row.split(',')) {
                if value != "_" {
                    // The reference has the address as it is sent: without its lowest bit.
                    let member = if *column == "address" { "address_field" } else { *column };
                    let found = object.get(member).and_then(Value::as_u64);
                    assert_eq!(found, Some(cell(column, value)), "{name}: {column} of `{row}`: {line}");
                }
            }
            packets += 1;
        }
        assert_eq!((packets, packets), (listing.lines().count(), expected.lines().count() - 1), "{name}");
    }
}

#[test]
fn the_flow_of_the_reference_streams_is_their_list_of_retired_instructions() {
    let Some(corpus) = corpus() else { return };
    let root = corpus.join("etrace/refflow");
    for (folder, name) in streams(&root) {
        let trace = folder.join(format!("{name}.te_inst_raw"));
        let parameters = folder.join("hardware_64.scf");
        let program = root.join(format!("elf/{name}.riscv"));
        let rom = format!("{}@0x1000", text(&root.join("elf/bootrom64.bin")));
        let arguments = [
            "flow",
            text(&trace),
            "--protocol",
            "etrace",
            "--framing",
            "reference",
            "--config",
            text(&parameters),
            "--image",
            text(&program),
            "--image",
            &rom,
            "--format",
            "pcs",
        ];
        let listing = written(&arguments);
        let list =
            String::from_utf8(gunzip(&root.join(format!("itype3/{name}.spike_pc_trace.gz")))).expect("text");
        let expected: Vec<u64> = list
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|cells| cells[4] == "0")
            .map(|cells| u64::from_str_radix(cells[1], 16).expect("address"))
            .collect();
        let told: Vec<u64> = addresses(&listing);
        let same = told.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        assert_eq!((same, told.len()), (expected.len(), expected.len()), "{name}");
    }
}

fn addresses(listing: &str) -> Vec<u64> {
    let address = |line: &str| u64::from_str_radix(line.trim_start_matches("0x"), 16).expect("address");
    listing.lines().map(address).collect()
}

#[test]
fn captures_of_the_pulp_encoder_are_read_to_the_end() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("etrace/pulp");
    for (name, program) in [("gpios_all", "gpios_all"), ("hello_culsans", "hello_culsans"), ("l1_test", "l1")]
    {
        let beats = folder.join(format!("{name}.packets.bin"));
        let encapsulated = folder.join(format!("{name}.encap.bin"));
        let beats = [
            "packets",
            text(&beats),
            "--protocol",
            "etrace",
            "--framing",
            "pulp",
            "--format",
            "json",
            "--strict",
        ];
        let encapsulated = [
            "packets",
            text(&encapsulated),
            "--protocol",
            "etrace",
            "--framing",
            "encap",
            "--config",
            "time_bytes=8",
            "--config",
            "dialect=seed",
            "--format",
            "json",
            "--strict",
        ];
        let (one, other) = (written(&beats), written(&encapsulated));
        assert_eq!(one.lines().count(), other.lines().count(), "{name}");
        for (one, other) in one.lines().zip(other.lines()) {
            let object = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
            let (one, other) = (object(one), object(other));
            for field in ["packet", "address", "branches", "branch_map", "ecause", "ienable"] {
                assert_eq!(one.get(field), other.get(field), "{name}: {field}");
            }
        }
        let image = folder.join(format!("{program}.riscv"));
        let flow = [
            "flow",
            beats[1],
            "--protocol",
            "etrace",
            "--framing",
            "pulp",
            "--image",
            text(&image),
            "--format",
            "pcs",
        ];
        assert!(written(&flow).lines().count() > 200, "{name}");
    }
}

#[test]
fn the_n_trace_stream_gives_its_pc_sequence() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("ntrace");
    let (trace, program) = (folder.join("test-NEX.bin"), folder.join("test.elf"));
    let listing = written(&[
        "flow",
        text(&trace),
        "--protocol",
        "ntrace",
        "--image",
        text(&program),
        "--format",
        "pcs",
    ]);
    let list = String::from_utf8(gunzip(&folder.join("test-PCSEQ.txt.gz"))).expect("text");
    let expected: Vec<u64> =
        list.lines().map(|line| u64::from_str_radix(&line[2..10], 16).expect("address")).collect();
    assert!(addresses(&listing) == expected, "the sequences differ");
}

/// `0x1000: jalr t1` to `0x2000: nop; ret`, which an exception takes to a handler at 0x3000 before the return.
const CODE: [(u64, &[u8]); 3] = [
    (0x1000, &[0xE7, 0x00, 0x03, 0x00, 0x13, 0, 0, 0, 0x13, 0, 0, 0]),
    (0x2000, &[0x13, 0, 0, 0, 0x67, 0x80, 0, 0]),
    (0x3000, &[0x13, 0, 0, 0, 0x13, 0, 0, 0]),
];

fn blocks(trap: bool) -> Vec<Block> {
    let block = |iaddr, iretire, itype| Block { iaddr, iretire, ilastsize: 1, itype, ..Block::default() };
    if trap {
        let exception = Block { cause: 2, ..block(0x2000, 2, Itype::Exception) };
        vec![block(0x1000, 2, Itype::UninferableCall), exception, block(0x3000, 4, Itype::None)]
    } else {
        vec![
            block(0x1000, 2, Itype::UninferableCall),
            block(0x2000, 4, Itype::Return),
            block(0x1004, 4, Itype::None),
        ]
    }
}

/// Writes a trace and its code into a folder; gives the trace and the `--image` arguments.
fn traced(name: &str, params: &Params, options: &Options, blocks: &[Block]) -> (PathBuf, Vec<String>) {
    traced_in(Framing::REFERENCE, name, params, options, blocks)
}

fn traced_in(
    framing: Framing,
    name: &str,
    params: &Params,
    options: &Options,
    blocks: &[Block],
) -> (PathBuf, Vec<String>) {
    let folder = scratch(name);
    let mut encoder = Tracer::new(*params, *options, TracerSettings::default()).expect("an encoder");
    let (mut framer, mut bytes) = (Framer::new(framing), Vec::new());
    let mut send = |packet| {
        let payload = etrace::encode(&packet, params, options);
        let message =
            Encapsulated { source: 0, kind: Kind::Instruction, flow: 0, time: None, payload: &payload };
        framer.frame(&message, &mut bytes).expect("it fits");
    };
    blocks.iter().for_each(|block| encoder.push(block, &mut send));
    encoder.finish(&mut send);
    let trace = folder.join("trace.bin");
    std::fs::write(&trace, bytes).expect("written");
    let mut images = Vec::new();
    for (address, code) in CODE {
        let file = folder.join(format!("{address:x}.bin"));
        std::fs::write(&file, code).expect("written");
        images.extend(["--image".to_owned(), format!("{}@{address:#x}", text(&file))]);
    }
    (trace, images)
}

fn flow<'a>(trace: &'a Path, images: &'a [String], config: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["flow", text(trace), "--protocol", "etrace", "--format", "pcs"];
    arguments.extend(images.iter().map(String::as_str));
    config.iter().for_each(|setting| arguments.extend(["--config", setting]));
    arguments
}

const TABLES: [&str; 7] = [
    "iaddress_width=64",
    "bpred_size_p=4",
    "cache_size_p=3",
    "f0s_width_p=1",
    "return_stack_size_p=3",
    "iret_ext=1",
    "ecause_width=5",
];

fn tables() -> Params {
    Params {
        iaddress_width: 64,
        ecause_width: 5,
        bpred_size: 4,
        cache_size: 3,
        f0s_width: 1,
        return_stack_size: 3,
        implicit_return: ImplicitReturn::Returns,
        ..Params::default()
    }
}

#[test]
fn every_option_is_followed_from_settings_on_the_command_line() {
    let expected = [0x1000, 0x2000, 0x2004, 0x1004, 0x1008];
    for bits in 0..32u32 {
        let on = |bit: u32| bits >> bit & 1 == 1;
        let options = Options {
            implicit_return: on(0),
            full_address: on(1),
            jump_target_cache: on(2),
            branch_prediction: on(3),
            sijump: on(4),
            ..Options::default()
        };
        let (trace, images) = traced(&format!("options{bits}"), &tables(), &options, &blocks(false));
        let mut config = TABLES.to_vec();
        // The support packets of the reference layout tell the others.
        config.extend(on(4).then_some("sequential_jump=1"));
        assert_eq!(addresses(&written(&flow(&trace, &images, &config))), expected, "{options:?}");
    }
}

#[test]
fn frames_that_are_numbered_are_read_and_the_number_is_no_time() {
    let (trace, images) = traced_in(Framing::Esp32, "esp32", &tables(), &Options::default(), &blocks(false));
    let mut arguments = flow(&trace, &images, &TABLES);
    arguments.extend(["--framing", "esp32"]);
    assert_eq!(addresses(&written(&arguments)), [0x1000, 0x2000, 0x2004, 0x1004, 0x1008]);
    arguments[5] = "text";
    let listing = written(&arguments);
    assert!(!listing.contains("time"), "{listing}");
}

#[test]
fn each_hart_of_a_stream_is_followed_by_its_own_options() {
    let (trace, images) = traced("harts", &tables(), &Options::default(), &[]);
    let (mut framer, mut bytes) = (Framer::new(Framing::SIEMENS), Vec::new());
    let mut frame = |source, payload: &[u8]| {
        let message = Encapsulated { source, kind: Kind::Instruction, flow: 0, time: None, payload };
        framer.frame(&message, &mut bytes).expect("it fits");
    };
    let harts = [false, true].map(|full_address| {
        let options = Options { full_address, jump_target_cache: full_address, ..Options::default() };
        let mut encoder = Tracer::new(tables(), options, TracerSettings::default()).expect("an encoder");
        let mut payloads = Vec::new();
        let mut send = |packet| payloads.push(etrace::encode(&packet, &tables(), &options));
        blocks(full_address).iter().for_each(|block| encoder.push(block, &mut send));
        encoder.finish(&mut send);
        payloads
    });
    for n in 0..harts[0].len().max(harts[1].len()) {
        for (source, payloads) in (1..).zip(&harts) {
            if let Some(payload) = payloads.get(n) {
                frame(source, payload);
            }
        }
        // Another source sends what is no packet, again and again.
        frame(3, &[0x02; 24]);
    }
    std::fs::write(&trace, bytes).expect("written");
    let mut arguments = flow(&trace, &images, &TABLES);
    arguments.extend(["--framing", "siemens"]);
    let output = backsight(&arguments);
    let mut told = addresses(&String::from_utf8_lossy(&output.stdout));
    told.sort();
    assert_eq!(told, [0x1000, 0x1000, 0x1004, 0x1008, 0x2000, 0x2000, 0x2004, 0x3000, 0x3004]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("bad packet"), "{complaint}");
}

#[test]
fn parameters_come_from_a_file_and_are_changed_by_later_settings() {
    let (trace, images) = traced("parameters", &tables(), &Options::default(), &blocks(false));
    let file = trace.with_file_name("hardware.scf");
    std::fs::write(&file, "# comment\n[Required]\niaddress_width_p = 32\necause_width_p=5\ncache_size_p=3\nbpred_size_p=4\nf0s_width_p=1\nreturn_stack_size_p=3\nlunar_phase_p=2\n").expect("written");
    let output = backsight(&flow(&trace, &images, &[text(&file), "iaddress_width=64", "iret_ext=1"]));
    assert_eq!(addresses(&String::from_utf8_lossy(&output.stdout)).len(), 5);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("lunar_phase_p"), "an unknown parameter is mentioned: {complaint}");
}

#[test]
fn a_handler_that_the_trace_leaves_out_comes_from_the_settings() {
    let options = Options { implicit_exception: true, ..Options::default() };
    let (trace, images) = traced("handlers", &tables(), &options, &blocks(true));
    let expected = [0x1000, 0x2000, 0x3000, 0x3004];
    for handler in ["trap_base=0x3000", "exception_2=0x3000"] {
        let mut config = TABLES.to_vec();
        config.push(handler);
        assert_eq!(addresses(&written(&flow(&trace, &images, &config))), expected, "{handler}");
    }
    let without = backsight(&flow(&trace, &images, &TABLES));
    let complaint = String::from_utf8_lossy(&without.stderr);
    assert!(complaint.contains("trap_base"), "{complaint}");
}

#[test]
fn returns_that_are_told_by_depth_are_warned_of() {
    let params = Params { iaddress_width: 64, return_stack_size: 3, ..Params::default() };
    let options = Options { implicit_return: true, ..Options::default() };
    let start = Start { branch: true, privilege: 3, time: 0, context: 0, address: 0x1004 >> 1 };
    let support = Support { ienable: true, options, ..Support::default() };
    let mut bytes = Vec::new();
    for packet in [Packet::Support(support), Packet::Start(start)] {
        let payload = etrace::encode(&packet, &params, &options);
        let message =
            Encapsulated { source: 0, kind: Kind::Instruction, flow: 0, time: None, payload: &payload };
        Framer::new(Framing::REFERENCE).frame(&message, &mut bytes).expect("it fits");
    }
    let (trace, images) = traced("irdepth", &tables(), &Options::default(), &[]);
    std::fs::write(&trace, bytes).expect("written");
    let output = backsight(&flow(&trace, &images, &["iaddress_width=64", "return_stack_size=3"]));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("irdepth"), "{complaint}");
    let info = written(&[
        "info",
        text(&trace),
        "--protocol",
        "etrace",
        "--config",
        "return_stack_size=3",
        "--config",
        "implicit_return=1",
    ]);
    assert!(info.contains("not reliable") && info.contains("return stack of 8"), "{info}");
}

#[test]
fn info_tells_parameters_in_words() {
    let (trace, _) = traced("info", &tables(), &Options::default(), &blocks(false));
    let mut arguments = vec!["info", text(&trace), "--protocol", "etrace"];
    TABLES.iter().for_each(|setting| arguments.extend(["--config", setting]));
    arguments.extend(["--config", "trap_base=0x3000", "--config", "vectored=1"]);
    let info = written(&arguments);
    for words in [
        "addresses of 64 bits without the lowest",
        "no context",
        "branch predictor of 16",
        "jump target cache of 8",
        "implicit returns counted",
        "trap handlers at 0x3000, vectored",
    ] {
        assert!(info.contains(words), "{words}: {info}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let (trace, _) = traced("refused", &tables(), &Options::default(), &blocks(false));
    for (setting, named) in [
        ("colour=1", "colour"),
        ("iaddress_width=99", "3 to 64"),
        ("trap_base=here", "trap_base"),
        ("vectored=perhaps", "vectored"),
        ("exception_x=1", "exception_x"),
    ] {
        let complaint = refused(&["packets", text(&trace), "--protocol", "etrace", "--config", setting]);
        assert!(complaint.contains(named), "{setting}: {complaint}");
    }
}
