//! A buffer that is too small loses trace, says so, and loses nothing else.

use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::Code as _;
use backsight_riscv::etrace::{Packet, QualStatus};
use backsight_riscv::ingress::Ingress;
use backsight_testing::Random;
use backsight_unit::etrace::{BufferedTracer, Fifo, Losses, Tracer};
use backsight_unit::riscv::BlockTracer;

use crate::random::{Code, execute};
use crate::reference::addresses;
use crate::roundtrip::{Case, blocks, case};

/// Instructions that retired while tracing was on, each with the number of its block.
type Truth = Vec<(u64, u64)>;

struct Run {
    case: Case,
    code: Code,
    /// Blocks, each with whether it is traced; their times are their numbers.
    blocks: Vec<(Ingress, bool)>,
    truth: Truth,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut case = case(&mut random);
        case.params.notime = 0;
        case.options.implicit_exception = false;
        let code = Code::new(&mut random, 60);
        let executed = execute(&code, &mut random, 400, case.wild);
        let mut blocks = blocks(&case, &executed, &mut random);
        let mut truth = Truth::new();
        for (number, (ingress, traced)) in (0..).zip(&mut blocks) {
            let Ingress::Block(block) = ingress else { continue };
            block.time = number;
            let mut at = block.iaddr;
            while *traced && at != block.end() {
                truth.push((at, number));
                let bytes = code.program.bytes_at(AddressSpace::ANY, Address(at)).unwrap();
                at += u64::from(backsight_isa::rv::size(u16::from(bytes[0])));
            }
        }
        Self { case, code, blocks, truth }
    }

    fn encode<E: BlockTracer<Packet = Packet>>(&self, encoder: &mut E) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut sink = |packet| packets.push(packet);
        for (ingress, traced) in &self.blocks {
            match ingress {
                Ingress::Block(block) if *traced => encoder.push(block, &mut sink),
                _ => encoder.unqualified(&mut sink),
            }
        }
        encoder.finish(&mut sink);
        packets
    }

    fn encoder(&self) -> Tracer {
        Tracer::new(self.case.params, self.case.options, self.case.settings).unwrap()
    }

    fn buffered(&self, fifo: Fifo) -> (Vec<Packet>, Losses) {
        let mut encoder = BufferedTracer::new(self.encoder(), fifo).unwrap();
        let packets = self.encode(&mut encoder);
        (packets, encoder.losses())
    }

    /// Where in the truth the instruction is that a packet begins with.
    fn place(&self, time: u64, field: u64) -> usize {
        let address = field << self.case.params.iaddress_lsb;
        self.truth.iter().position(|&place| place == (address, time)).expect("a place in the truth")
    }

    /// Checks what a follower tells, stretch by stretch, and gives the number of losses that it was told.
    fn check(&self, packets: &[Packet], what: &str) -> u64 {
        let settings = Settings::new(self.case.params, self.case.options);
        let mut follower = Follower::new(settings, &self.code.program);
        let (mut told, mut place, mut gaps) = (Vec::new(), 0, 0);
        let (mut traced, mut in_gap) = (false, false);
        let take = |event: Located<Event>, told: &mut Vec<u64>| {
            if let Event::Range(_) = event.value {
                told.extend(addresses(&self.code.program, &[event.value]));
            }
        };
        for packet in packets {
            let begins = match packet {
                Packet::Start(start) => Some((start.time, start.address)),
                Packet::Trap(trap) if trap.thaddr => Some((trap.time, trap.address.expect("an address"))),
                _ => None,
            };
            if let (Some((time, address)), false) = (begins, traced) {
                let begin = self.place(time, address);
                assert!(begin == place || begin > place && in_gap, "{what}: {begin} after {place}");
                (place, traced, in_gap) = (begin, true, false);
            }
            follower
                .push(Located { offset: 0, length: 1, value: *packet }, &mut |event| take(event, &mut told));
            let ended =
                matches!(packet, Packet::Support(support) if support.qual_status != QualStatus::NoChange);
            if ended {
                self.check_stretch(&told, place, what);
                place += told.len();
                told.clear();
                let lost = matches!(packet, Packet::Support(s) if s.qual_status == QualStatus::TraceLost);
                (traced, in_gap) = (false, in_gap | lost);
                gaps += u64::from(lost);
            }
        }
        follower.finish(&mut |event| take(event, &mut told));
        assert!(told.is_empty() && (place == self.truth.len() || in_gap), "{what}: the end, at {place}");
        assert_eq!(follower.faults().total(), gaps, "{what}");
        gaps
    }

    fn check_stretch(&self, told: &[u64], place: usize, what: &str) {
        let expected: Vec<u64> =
            self.truth.iter().skip(place).take(told.len()).map(|(address, _)| *address).collect();
        assert_eq!(told, expected, "{what}: from {place}");
    }
}

#[test]
fn what_is_told_around_a_gap_is_true_and_no_gap_is_hidden() {
    let mut gaps = 0;
    for seed in 0..300 {
        let run = Run::new(seed);
        for capacity in [64, 80, 130, 300] {
            for drain in [0, 40, 200, 1000, 5000] {
                let what = format!("seed {seed}, {capacity} bytes, {drain} in 1024 cycles");
                let (packets, losses) = run.buffered(Fifo { capacity, drain, lossless: false });
                assert_eq!(run.check(&packets, &what), losses.gaps, "{what}");
                gaps += losses.gaps;
                if losses.gaps == 0 {
                    assert_eq!(packets, run.encode(&mut run.encoder()), "{what}");
                }
            }
        }
    }
    assert!(gaps > 1000, "{gaps}");
}

#[test]
fn a_buffer_that_is_large_enough_loses_nothing() {
    for seed in 0..200 {
        let run = Run::new(seed);
        let expected = run.encode(&mut run.encoder());
        let (packets, losses) = run.buffered(Fifo { capacity: 1 << 20, drain: 0, lossless: false });
        assert_eq!((packets == expected, losses.gaps), (true, 0), "seed {seed}");
    }
}

#[test]
fn lossless_trace_stalls_the_hart_and_is_complete() {
    let mut stalls = 0;
    for seed in 0..200 {
        let run = Run::new(seed);
        let expected = run.encode(&mut run.encoder());
        for drain in [1, 100, 1000] {
            let (packets, losses) = run.buffered(Fifo { capacity: 64, drain, lossless: true });
            assert_eq!((packets == expected, losses.gaps), (true, 0), "seed {seed}, {drain}");
            stalls += losses.stalls;
        }
        assert_eq!(run.check(&expected, "complete"), 0);
    }
    assert!(stalls > 100_000, "{stalls}");
}
