//! Lines of all dialects, as the reference has them.

use backsight_core::{Describe as _, Located, Resume as _, describe};
use backsight_tarmac::{
    Bad, Class, Config, Decoder, ExceptionKind, LONGEST_LINE, Line, Memory, ModeKind, Packet, RegisterWrite,
    State,
};

fn all(config: Config, text: &str) -> Vec<Located<Packet>> {
    let (mut decoder, mut packets) = (Decoder::new(&config), Vec::new());
    decoder.feed(text.as_bytes(), &mut |packet| packets.push(packet));
    decoder.finish(&mut |packet| packets.push(packet));
    assert_eq!(decoder.accounting().total(), text.len() as u64);
    packets
}

fn lines(text: &str) -> Vec<Line> {
    all(Config::default(), text).into_iter().map(|packet| packet.value.line).collect()
}

fn one(line: &str) -> Line {
    match lines(&format!("{line}\n"))[..] {
        [line] => line,
        ref others => panic!("{line}: {others:?}"),
    }
}

/// Address, opcode, size, instruction set, executed, mode.
fn instruction(line: &str) -> (u64, u32, u8, State, bool, ModeKind) {
    match one(line) {
        Line::Instruction(it) => (it.address, it.opcode, it.size, it.state, it.executed, it.mode.kind),
        other => panic!("{line}: {other:?}"),
    }
}

fn memory(line: &str) -> Memory {
    match one(line) {
        Line::Memory(memory) => memory,
        other => panic!("{line}: {other:?}"),
    }
}

fn register(line: &str) -> RegisterWrite {
    match one(line) {
        Line::Register(write) => write,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_bracket_is_a_count_or_an_address_by_what_follows() {
    let add = (0x8044, 0xE281_1004, 4, State::A32, true, ModeKind::Svc);
    let line = "17 clk IT (17) 00008044:000000008044_NS e2811004 A svc_s : ADD      r1,r1,#4";
    assert_eq!(instruction(line), add);
    assert_eq!(instruction("17 clk IT (8044) e2811004 A svc_s : ADD r1,r1,#4"), add);
    assert_eq!(instruction("17 clk IT 8044 e2811004 A svc_s : ADD r1,r1,#4"), add);
    let skipped = (0x9002, 0xD1FC, 2, State::T32, false, ModeKind::Thread);
    assert_eq!(instruction("18 clk cpu1 IS (18) 00009002 d1fc T thread : BNE {pc}-4"), skipped);
    let rtl = (0x9002, 0xD1FC, 2, State::T32, true, ModeKind::Unknown);
    assert_eq!(instruction("35ns IT (9002:1a) 00009002 d1fc T16 BNE 0x8ffe"), rtl);
}

#[test]
fn cycle_models_write_the_opcode_beside_the_address() {
    let line = "            4100 tic ES  (0000000000081004:54000040) O el1h_ns:         B.EQ     {pc}+8";
    assert_eq!(instruction(line), (0x81004, 0x5400_0040, 4, State::A64, true, ModeKind::Level(1, true)));
    let line = "            4200 tic ES  (00000210:03a00001) A svc_s:   CCFAIL MOVEQ    r0,#1";
    assert_eq!(instruction(line), (0x210, 0x03A0_0001, 4, State::A32, false, ModeKind::Svc));
    let line = "4200 tic ES  (00000210:--------) A svc_s: ";
    assert_eq!(instruction(line), (0x210, 0, 4, State::A32, false, ModeKind::Svc));
    assert_eq!(instruction("1 tic ES (210:e1a00000) A: NOP").5, ModeKind::Unknown);
}

#[test]
fn a_log_without_instruction_sets_is_read_if_somebody_says_so() {
    let text = "1 cyc IT (9002) 9002 d1fc BNE\n";
    assert_eq!(one(text.trim_end()), Line::Bad(Bad::State));
    let config = Config { assume_thumb: true, ..Config::default() };
    assert!(matches!(all(config, text)[0].value.line, Line::Instruction(it) if it.state == State::T32));
}

#[test]
fn times_are_counts_or_millionths_and_lines_without_one_have_that_before() {
    let text = "cpu2 R r0 00000001\n17 clk R r0 00000001\n7.25us R r0 00000001\n R r0 00000002\n35ns cpu3 R r1 00000000\n9.9999996 us R r0 00000000\n";
    let times: Vec<_> =
        all(Config::default(), text).iter().map(|packet| (packet.value.time, packet.value.core)).collect();
    assert_eq!(times, [(0, 2), (17, 0), (7_250_000, 0), (7_250_000, 0), (35, 3), (10_000_000, 0)]);
    assert!(matches!(one("1 clk cluster0.cpu1 IT (1) 8000 e1a00000 A svc : NOP"), Line::Instruction(_)));
    let packets = all(Config::default(), "1 clk cluster1.cpu2 R r0 00000000\n");
    assert_eq!(packets[0].value.core, 0x102);
}

#[test]
fn registers_have_classes_numbers_and_banks() {
    let name = |line| {
        let register = register(line).register;
        (
            register.class,
            register.number,
            register.bank.as_str().to_owned(),
            register.name().as_str().to_owned(),
        )
    };
    let known = |class, number, bank: &str, text: &str| (class, number, bank.to_owned(), text.to_owned());
    assert_eq!(name("20 clk R r13_svc 0007fff0"), known(Class::R, 13, "svc", "r13_svc"));
    assert_eq!(name("20 clk R X9 00000000000ABC10"), known(Class::X, 9, "", "x9"));
    assert_eq!(name("20 clk R SP_EL3 00000000000FFFF0"), known(Class::Sp, 0, "el3", "sp_el3"));
    assert_eq!(name("20 clk R SP_SVC 0007fff0"), known(Class::R, 13, "svc", "r13_svc"));
    assert_eq!(name("20 clk R R1 (USR) 00000001"), known(Class::R, 1, "usr", "r1_usr"));
    assert_eq!(name("20 clk R r13_main_s 00000001"), known(Class::R, 13, "main_s", "r13_main_s"));
    assert_eq!(name("20 clk R cpsr 600001d3 __C_"), known(Class::Cpsr, 0, "", "cpsr"));
    assert_eq!(register("20 clk R cpsr 1600001d3").data.low(), 0x6000_01D3);
    let esr = register("20 clk R ESR_EL3 5e000000");
    assert!(matches!(esr.register.class, Class::System(name) if name.as_str() == "ESR_EL3"));
    assert_eq!((esr.data.low(), esr.width), (0x5E00_0000, 4));
    assert!(matches!(one("20 clk R TLBI ALLE3 00000000"), Line::Text(_)));
}

#[test]
fn parts_of_registers_and_digits_that_are_not_known() {
    let high = register("1 clk R V3<127:64> 3ff0000000000000");
    assert_eq!(
        (high.offset, high.data.touched, high.data.low(), high.width),
        (8, 0xFF, 0x3FF0_0000_0000_0000, 0)
    );
    let some = register("21 ns R Q1 -------- -------- 40490fdb 00000000");
    assert_eq!((some.data.touched, some.data.low()), (0xFF, 0x4049_0FDB_0000_0000));
    let unknown = register("21 ns R r0 xx0xxx12");
    assert_eq!((unknown.data.touched, unknown.data.known, unknown.data.low()), (0xF, 1, 0x12));
    let grouped = register("21 ns R q0 00000000_00000001:00000000_00000002");
    assert_eq!(grouped.data.number(), 1 << 64 | 2);
    assert_eq!(register("21 ns R X1 0").data.touched, 0xFF);
    assert_eq!(one("21 ns R X1 12"), Line::Bad(Bad::Value));
    assert_eq!(one("21 ns R ICSR 123"), Line::Bad(Bad::Value));
}

#[test]
fn long_registers_come_in_parts() {
    let digits: String = (0..32).map(|byte| format!("{:02x}", 31 - byte)).collect();
    let packets = all(Config::default(), &format!("1 clk R z5 {digits}\n"));
    let parts: Vec<_> = packets
        .iter()
        .map(|packet| match packet.value.line {
            Line::Register(write) => (write.register.class, write.offset, write.width, write.data.bytes[0]),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(parts, [(Class::Z, 0, 32, 0), (Class::Z, 16, 32, 16)]);
}

#[test]
fn accesses_are_bytes_in_the_order_of_their_addresses() {
    let read = memory("23 clk MR4 00008100:000000008100_NS 0000002a");
    assert_eq!((read.address, read.write, read.value(), read.size()), (0x8100, false, 0x2A, 4));
    assert_eq!(memory("24 clk MW8 0007ffe0 00000000_00008048").value(), 0x8048);
    assert!(memory("25 cs W04 X 00001000 00000001").write);
    let d = memory("1 cyc MNW4___D 20000010 78563412");
    assert_eq!((d.value(), d.data.bytes[0]), (0x1234_5678, 0x78));
    assert!(matches!(one("1 cyc MNR4___I 20000010 78563412"), Line::Text(_)));
    assert!(matches!(one("1 cyc MR4_I 20000010 78563412"), Line::Text(_)));
    assert!(memory("1 clk MR4 00008100 (ABORTED)").aborted);
    let unknown = memory("1 clk MR2 00008100 xx12");
    assert_eq!((unknown.data.touched, unknown.data.known), (3, 1));
    let long = memory("1 clk MR16 1000 0000000000000001 0000000000000002");
    assert_eq!((long.data.part(0), long.data.part(8), long.size()), (2, 1, 16));
    let gem5 = memory("1 clk cpu0 MW16 1000 00000000000000000000000000000001");
    assert_eq!((gem5.write, gem5.data.touched, gem5.data.known), (false, u16::MAX, 0));
    let big = Config { big_endian: true, ..Config::default() };
    match all(big, "1 clk MW4 1000 12345678\n")[0].value.line {
        Line::Memory(memory) => assert_eq!((memory.data.bytes[0], memory.value()), (0x12, 0x1234_5678)),
        other => panic!("{other:?}"),
    }
    assert_eq!(one("1 clk MW3 1000 123456"), Line::Bad(Bad::Size));
}

#[test]
fn pictures_go_on_in_the_same_column() {
    let text = "                 ST 0007ffe0  ........ 0000002a ........ ......7f     S:000007ffe0    NM ISH\n                    0007ffd0  00008048 ........ ####.... ........     S:000007ffd0    NM ISH\n  R X0 0000000000000001\n";
    let [Line::Memory(first), Line::Memory(second), Line::Register(_)] = lines(text)[..] else {
        panic!("{:?}", lines(text));
    };
    assert_eq!((first.address, first.data.touched, first.data.known), (0x7FFE0, 0x0F01, 0x0F01));
    assert_eq!((first.data.bytes[0], first.data.bytes[8], first.write), (0x7F, 0x2A, true));
    assert_eq!((second.address, second.data.touched, second.data.known), (0x7FFD0, 0xF0C0, 0xF000));
    assert!(second.write && second.picture);
    assert_eq!(one("130 clk ST 0010000 6665 6463"), Line::Bad(Bad::Picture));
}

#[test]
fn exceptions_have_kinds() {
    let kind = |line| match one(line) {
        Line::Exception(exception) => (exception.kind, exception.address, exception.number),
        other => panic!("{line}: {other:?}"),
    };
    let mode_change = (ExceptionKind::ModeChange, Some(0x8050), Some(0x19));
    assert_eq!(kind("30 clk E 00008050 abt 00000019 CoreEvent_ModeChange"), mode_change);
    let abort = (ExceptionKind::DataAbort, Some(0x8050), Some(5));
    assert_eq!(kind("30 clk E 00008050 00000005 CoreEvent_handleDataAbort"), abort);
    assert_eq!(kind("30 tic ES EXC [0x280] IRQ"), (ExceptionKind::Irq, None, Some(0x280)));
    assert_eq!(kind("      EXC [400] Synchronous"), (ExceptionKind::Synchronous, None, Some(0x400)));
    assert_eq!(kind("30 tic ES Reset"), (ExceptionKind::Reset, None, None));
    assert!(matches!(one("30 clk E HRESETn 0"), Line::Text(_)));
    assert!(matches!(one("30 clk E DebugEvent_Halt"), Line::Text(_)));
    assert_eq!(one("   BR (0000000000081010) O"), Line::Branch(0x81010));
    assert!(matches!(one("Tarmac Text Rev 3t"), Line::Text(word) if word.as_str() == "Tarmac"));
}

#[test]
fn a_line_without_an_end_is_never_believed() {
    assert_eq!(lines("1 clk R X0 0000000000000000\n1 clk MR4 8000 00").last(), Some(&Line::Bad(Bad::Cut)));
    let long = format!("{}\n1 clk R r0 00000001\n", "x".repeat(3 * LONGEST_LINE));
    let [Line::Bad(Bad::TooLong), Line::Register(_)] = lines(&long)[..] else { panic!() };
}

#[test]
fn any_split_gives_the_same() {
    let text =
        std::fs::read_to_string(backsight_testing::repository().join("testdata/tarmac/dialects.tarmac"))
            .unwrap();
    let whole = all(Config::default(), &text);
    for size in [1, 2, 3, 7, 64, 1000] {
        let (mut decoder, mut packets) = (Decoder::new(&Config::default()), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            decoder.feed(piece, &mut |packet| packets.push(packet));
            decoder = decoder.state();
        }
        assert_eq!(packets, whole, "{size}");
    }
}

#[test]
fn a_decoder_that_begins_at_a_synchronisation_says_the_same() {
    let text =
        std::fs::read_to_string(backsight_testing::repository().join("testdata/tarmac/dialects.tarmac"))
            .unwrap();
    let whole = all(Config::default(), &text);
    let first = Decoder::new(&Config::default());
    let mut end = text.len();
    let mut found = 0;
    while let Some(start) = first.last_sync(&text.as_bytes()[..end], 1) {
        let (mut decoder, mut packets) = (first.starting_at(start as u64), Vec::new());
        decoder.feed(&text.as_bytes()[start..], &mut |packet| packets.push(packet));
        let from = whole.iter().position(|packet| packet.offset == start as u64).unwrap();
        assert_eq!(packets, whole[from..]);
        (end, found) = (start, found + 1);
    }
    assert!(found > 5, "{found}");
}

#[test]
fn every_cut_and_ten_thousand_mutations_are_read() {
    let text =
        std::fs::read(backsight_testing::repository().join("testdata/tarmac/dialects.tarmac")).unwrap();
    let read = |bytes: &[u8]| {
        let (mut decoder, mut length) = (Decoder::new(&Config::default()), 0);
        let mut words = String::new();
        let mut take = |packet: Located<Packet>| {
            words.clear();
            describe::write_text(&packet.value, &mut words).unwrap();
            assert!(words.bytes().all(|byte| (0x20..0x7F).contains(&byte)), "{words}");
            assert!(!packet.value.name().is_empty());
            length += 1;
        };
        decoder.feed(bytes, &mut take);
        decoder.finish(&mut take);
        assert_eq!(decoder.accounting().total(), bytes.len() as u64);
        length
    };
    for end in 0..text.len() {
        read(&text[..end]);
    }
    let mut seed = 7_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for _ in 0..10_000 {
        let mut bytes = text.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b" \n:()<>_-xX0fA#"[random(15)]),
                _ => {
                    let from = random(bytes.len());
                    let to = (from + random(40)).min(bytes.len());
                    let copy = bytes[from..to].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        read(&bytes);
    }
}
