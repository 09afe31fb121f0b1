//! The server is asked in the packets of the protocol.

mod support;

use backsight::flow::Range;
use backsight::listing::steps;
use backsight::{Capture, Event};
use backsight_debug::gdb::Server;
use support::{Random, bundled, moments, replay};

/// A packet as it is sent.
fn packet(contents: &str) -> Vec<u8> {
    let sum = contents.bytes().fold(0_u8, u8::wrapping_add);
    format!("${contents}#{sum:02x}").into_bytes()
}

/// Asks, and gives the contents of the last answer.
fn ask(server: &mut Server<'_, '_>, out: &Shared, contents: &str) -> String {
    out.clear();
    assert!(server.take(&packet(contents)).expect("memory takes everything"), "{contents}");
    let text = String::from_utf8_lossy(&out.bytes()).into_owned();
    let answer = text.rsplit('$').next().expect("an answer");
    answer.split('#').next().expect("contents").to_owned()
}

/// Where answers go, to be read while the server has it.
#[derive(Clone, Default)]
struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Shared {
    fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The addresses of all instructions, as `flow --format pcs` lists them.
fn listed(capture: &Capture) -> Vec<u64> {
    let code = capture.code().expect("code");
    let mut all = Vec::new();
    let mut each = |range: &Range, source: &backsight::Source| {
        let seen = code.seen_by(source);
        steps(range, backsight::core::AddressSpace::ANY, &seen, |step| all.push(step.address.0));
    };
    capture
        .execution()
        .run(|item| {
            if let Event::Range(range) = &item.value {
                each(range, item.source);
            }
        })
        .expect("a decode");
    all
}

/// The program counter in a reply that says where it stopped.
fn stopped_at(reply: &str, register: &str) -> u64 {
    let field = reply.split(';').find_map(|field| field.strip_prefix(register)?.strip_prefix(':'));
    let digits = field.unwrap_or_else(|| panic!("{reply}"));
    let bytes =
        (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hex"));
    bytes.rev().fold(0, |sum, byte| sum << 8 | u64::from(byte))
}

#[test]
fn stepping_through_a_whole_program_gives_its_instructions_forwards_and_backwards() {
    for (name, pc) in
        [("calls-aarch64", "20"), ("interwork-arm", "f"), ("calls-riscv64", "20"), ("first", "20")]
    {
        let capture = bundled(name);
        let expected = listed(&capture);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        assert_eq!(replay.instructions(0), expected.len() as u64, "{name}");
        let reader = Shared::default();
        let mut server = Server::new(&mut replay, reader.clone()).expect("a server");
        let mut backwards = vec![stopped_at(&ask(&mut server, &reader, "?"), pc)];
        loop {
            let reply = ask(&mut server, &reader, "bs");
            if reply.contains("replaylog:begin") {
                break;
            }
            backwards.push(stopped_at(&reply, pc));
        }
        backwards.reverse();
        assert!(backwards == expected, "{name}: {} {}", backwards.len(), expected.len());
        let mut forwards = vec![stopped_at(&ask(&mut server, &reader, "?"), pc)];
        loop {
            let reply = ask(&mut server, &reader, "s");
            if reply.contains("replaylog:end") {
                break;
            }
            forwards.push(stopped_at(&reply, pc));
        }
        assert!(forwards == expected, "{name}: {} {}", forwards.len(), expected.len());
    }
}

#[test]
fn what_is_not_known_is_unavailable_and_never_zero() {
    let capture = bundled("calls-riscv64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let reader = Shared::default();
    let mut server = Server::new(&mut replay, reader.clone()).expect("a server");
    let all = ask(&mut server, &reader, "g");
    // x0 is zero; x1 to x31 are not known; the program counter is.
    assert_eq!(&all[..16], "0".repeat(16));
    assert_eq!(&all[16..32 * 16], "x".repeat(31 * 16));
    assert_ne!(&all[32 * 16..33 * 16], "0".repeat(16));
    assert_eq!(ask(&mut server, &reader, "p2"), "x".repeat(16));
    assert_eq!(ask(&mut server, &reader, "m0,4"), "E01");
    assert_eq!(ask(&mut server, &reader, "m11000,4").len(), 8);
    // Nothing can be changed.
    for request in ["P2=0000000000000000", "G00", "M11000,1:00", "X11000,1:0"] {
        assert_eq!(ask(&mut server, &reader, request), "E01");
    }
    assert_eq!(ask(&mut server, &reader, "Z2,11000,4"), "");
}

#[test]
fn files_that_are_no_code_of_the_capture_cannot_be_opened() {
    let capture = bundled("calls-riscv64");
    let moments = moments(&capture);
    let mut replay = replay(&capture, &moments);
    let reader = Shared::default();
    let mut server = Server::new(&mut replay, reader.clone()).expect("a server");
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for name in ["/etc/passwd", "/proc/self/maps", "../Cargo.toml", ""] {
        assert_eq!(ask(&mut server, &reader, &format!("vFile:open:{},0,0", hex(name))), "F-1,2", "{name}");
    }
    let program = ask(&mut server, &reader, "qXfer:exec-file:read::0,1000");
    let name = hex(program.strip_prefix('l').expect("all of it"));
    // To be written it is not opened, and read it is.
    assert_eq!(ask(&mut server, &reader, &format!("vFile:open:{name},1,0")), "F-1,d");
    assert_eq!(ask(&mut server, &reader, &format!("vFile:open:{name},0,0")), "F1");
    assert!(ask(&mut server, &reader, "vFile:pread:1,4,0").starts_with("F4;\u{7f}ELF"));
    assert_eq!(ask(&mut server, &reader, "vFile:close:1"), "F0");
    assert_eq!(ask(&mut server, &reader, "vFile:pread:1,4,0"), "F-1,9");
}

/// Packets that a debugger sends.
const SENT: [&str; 30] = [
    "qSupported:swbreak+;hwbreak+",
    "?",
    "g",
    "p20",
    "m11000,10",
    "Hg1",
    "Hc-1",
    "T1",
    "Z0,11000,4",
    "Z1,400120,4",
    "z0,11000,4",
    "s",
    "c",
    "bs",
    "bc",
    "qXfer:features:read:target.xml:0,fff",
    "qXfer:libraries:read::0,1000",
    "qXfer:threads:read::0,1000",
    "qXfer:exec-file:read::0,fff",
    "vFile:setfs:0",
    "vFile:pread:1,1000,10",
    "vFile:fstat:1",
    "qfThreadInfo",
    "qsThreadInfo",
    "qThreadExtraInfo,1",
    "qC",
    "qBacksightCalls",
    "qRcmd,7768657265",
    "qRcmd,676f746f202331303030",
    "qRcmd,66696e642061636b65726d616e6e",
];

#[test]
fn thousands_of_mutated_packets_do_not_end_a_server() {
    for (name, seed) in [("calls-riscv64", 1), ("interwork-arm", 2), ("first", 3)] {
        let capture = bundled(name);
        let moments = moments(&capture);
        let mut replay = replay(&capture, &moments);
        let reader = Shared::default();
        let mut server = Server::new(&mut replay, reader.clone()).expect("a server");
        let mut random = Random(seed);
        for _ in 0..4000 {
            let mut bytes = SENT[random.below(SENT.len() as u64) as usize].as_bytes().to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                match random.below(3) {
                    0 if at < bytes.len() => bytes[at] = random.next() as u8,
                    1 if at < bytes.len() => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0f,;:-#$}*\x03"[random.below(11) as usize]),
                }
            }
            // These end a session.
            if matches!(bytes.first(), Some(b'D' | b'k')) || bytes.starts_with(b"vKill") {
                continue;
            }
            // Half of them arrive damaged.
            let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
            let mut sent = vec![b'$'];
            sent.extend(&bytes);
            sent.extend(format!("#{:02x}", sum.wrapping_add(random.below(2) as u8)).bytes());
            server.take(&sent).expect("memory takes everything");
            reader.clear();
        }
        let answer = ask(&mut server, &reader, "?");
        assert!(answer.starts_with('T'), "{answer}");
        let begun = ask(&mut server, &reader, "bc");
        assert!(begun.starts_with('T'), "{begun}");
    }
}
