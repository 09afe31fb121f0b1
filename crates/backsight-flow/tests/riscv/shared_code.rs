//! Followers that go on with what another one has read of the code report what each reports alone: harts in turns, with
//! caches that are exchanged, or taken and given, also where the code changes in between and where a sink has enough; and so do
//! followers that go on with what another one knows.

use std::ops::Range;

use backsight_core::{AddressSpace, Located};
use backsight_flow::etrace::{self, Fault};
use backsight_flow::{Buffer, CodeCache, Event, Statistics, ntrace};
use backsight_isa::rv;
use backsight_riscv::etrace::{BadPacket, Packet, PayloadDecoder};
use backsight_riscv::ingress::{Ctype, Ingress};
use backsight_riscv::ntrace::Packet as NtracePacket;
use backsight_testing::Random;
use backsight_unit::ntrace::Tracer;

use crate::program::Program;
use crate::random::{Code, Wildness, execute};
use crate::roundtrip::{case, following, payloads};
use crate::{damage, ntrace_encoder};

/// What both followers have in common.
trait Follow: Clone {
    type Packet: Copy;

    fn push(&mut self, packet: Located<Self::Packet>, sink: &mut Buffer);
    fn is_paused(&self) -> bool;
    fn resume(&mut self, sink: &mut Buffer);
    fn finish(&mut self, sink: &mut Buffer);
    fn counts(&self) -> (Statistics, u64);
    fn change(&mut self, program: &Program, addresses: Option<Range<u64>>);
    fn take(&mut self) -> CodeCache;
    fn give(&mut self, cache: CodeCache) -> Result<(), CodeCache>;
    fn exchange(&mut self, other: &mut Self);
    /// Goes on as the other one would have gone on.
    fn go_on_as(&mut self, other: &Self);
}

macro_rules! follow {
    ($follower:ty, $packet:ty, $counts:expr) => {
        impl Follow for $follower {
            type Packet = $packet;

            fn push(&mut self, packet: Located<$packet>, sink: &mut Buffer) {
                Self::push(self, packet, sink);
            }

            fn is_paused(&self) -> bool {
                Self::is_paused(self)
            }

            fn resume(&mut self, sink: &mut Buffer) {
                Self::resume(self, sink);
            }

            fn finish(&mut self, sink: &mut Buffer) {
                Self::finish(self, sink);
            }

            fn counts(&self) -> (Statistics, u64) {
                $counts(self)
            }

            fn change(&mut self, program: &Program, addresses: Option<Range<u64>>) {
                let code = match addresses {
                    Some(addresses) => self.change_code(AddressSpace::ANY, addresses),
                    None => self.code_mut(),
                };
                code.clone_from(program);
            }

            fn take(&mut self) -> CodeCache {
                self.take_cache()
            }

            fn give(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
                self.give_cache(cache)
            }

            fn exchange(&mut self, other: &mut Self) {
                self.exchange_caches(other);
            }

            fn go_on_as(&mut self, other: &Self) {
                let known = other.state();
                self.restore(&known);
                assert!(self.state() == known);
            }
        }
    };
}

type Etrace = etrace::Follower<Program>;
type Ntrace = ntrace::Follower<Program>;

follow!(
    Etrace,
    Result<Packet, BadPacket>,
    |follower: &Etrace| (
        *follower.statistics(),
        Fault::ALL.iter().map(|&fault| follower.faults().of(fault)).sum()
    )
);
follow!(Ntrace, NtracePacket, |follower: &Ntrace| (*follower.statistics(), 0));

/// A follower, and what it reported.
#[derive(Clone)]
struct Hart<F> {
    follower: F,
    events: Vec<Located<Event>>,
    buffer: Buffer,
    /// What others counted before it went on as they would have gone on, and it itself before that.
    before: (Statistics, u64),
    not_its_own: (Statistics, u64),
}

impl<F: Follow> Hart<F> {
    fn new(follower: &F, enough: usize) -> Self {
        let (before, not_its_own) = Default::default();
        Self {
            follower: follower.clone(),
            events: Vec::new(),
            buffer: Buffer::new(enough),
            before,
            not_its_own,
        }
    }

    fn counts(&self) -> (Statistics, u64) {
        let (mut statistics, faults) = self.follower.counts();
        statistics += self.before.0;
        (statistics - self.not_its_own.0, faults + self.before.1 - self.not_its_own.1)
    }

    /// Another follower, which may have followed something else, goes on with what this one knows.
    fn move_to(&mut self, mut other: F) {
        let counts = other.counts();
        self.before = self.counts();
        self.not_its_own = counts;
        other.go_on_as(&self.follower);
        self.follower = other;
    }

    /// The rest of the packet may be left for later.
    fn push(&mut self, packet: Located<F::Packet>, all: bool) {
        self.follower.push(packet, &mut self.buffer);
        self.events.extend(self.buffer.drain());
        if all {
            self.drain();
        }
    }

    fn drain(&mut self) {
        while self.follower.is_paused() {
            self.follower.resume(&mut self.buffer);
            self.events.extend(self.buffer.drain());
        }
    }

    fn finish(&mut self) {
        self.drain();
        self.follower.finish(&mut self.buffer);
        self.events.extend(self.buffer.drain());
    }
}

/// Follows the packets of several harts in turns, each alone and all together. Gives the ranges that were followed.
fn compare<F: Follow>(
    what: &str,
    follower: &F,
    packets: &[Vec<F::Packet>],
    code: &Code,
    random: &mut Random,
) -> u64 {
    let enough = [1, 3, usize::MAX, usize::MAX][random.below(4) as usize];
    let harts = || (0..packets.len()).map(|_| Hart::new(follower, enough)).collect::<Vec<_>>();
    let (mut alone, mut together) = (harts(), harts());
    let (mut next, mut holder) = (vec![0; packets.len()], 0);
    let (changes, mut patch) = (random.below(2) == 0, 0..0);
    let mut current = code.program.clone();
    while next.iter().zip(packets).any(|(&next, packets)| next < packets.len()) {
        let hart = random.below(packets.len() as u64) as usize;
        if hart != holder {
            share(&mut together, holder, hart, random);
            holder = hart;
        }
        for _ in 0..1 + random.below(4) {
            let Some(&value) = packets[hart].get(next[hart]) else { break };
            let all = random.below(2) == 0;
            for one in [&mut alone[hart], &mut together[hart]] {
                one.push(Located { offset: next[hart] as u64, length: 1, value }, all);
            }
            next[hart] += 1;
        }
        if random.below(6) == 0 {
            let mut other = match random.below(2) {
                0 => follower.clone(),
                _ => alone[random.below(packets.len() as u64) as usize].follower.clone(),
            };
            other.change(&current, None);
            together[hart].move_to(other);
        }
        if changes && random.below(8) == 0 {
            let (program, addresses) = match random.below(2) {
                0 => code.patched(random),
                _ => (code.program.clone(), 0..0),
            };
            // What was patched before is as it was.
            let changed = match random.below(4) {
                0 => vec![None],
                _ => vec![Some(patch), Some(addresses.clone())],
            };
            for one in alone.iter_mut().chain(&mut together) {
                one.drain();
                changed.iter().for_each(|changed| one.follower.change(&program, changed.clone()));
            }
            (patch, current) = (addresses, program);
        }
    }
    for (hart, (alone, together)) in alone.iter_mut().zip(&mut together).enumerate() {
        alone.finish();
        together.finish();
        let differs = alone.events.iter().zip(&together.events).position(|(a, b)| a != b);
        if let Some(n) = differs {
            let (alone, together) = (alone.events[n], together.events[n]);
            panic!("{what}, hart {hart}, event {n}: {together:x?} instead of {alone:x?}");
        }
        assert_eq!(alone.events.len(), together.events.len(), "{what}, hart {hart}");
        assert_eq!(alone.counts(), together.counts(), "{what}, hart {hart}");
    }
    alone.iter().map(|alone| alone.follower.counts().0.ranges).sum()
}

/// What one has read of the code goes to another, in one way or another.
fn share<F: Follow>(harts: &mut [Hart<F>], from: usize, to: usize, random: &mut Random) {
    let Ok([from, to]) = harts.get_disjoint_mut([from, to]) else { return };
    match random.below(4) {
        0 | 1 => to.follower.exchange(&mut from.follower),
        2 => {
            // Damage may have announced options in which code is read in another way.
            if let Err(cache) = to.follower.give(from.follower.take()) {
                assert!(from.follower.give(cache).is_ok(), "it is its own");
            }
        }
        _ => {}
    }
}

#[test]
fn harts_share_what_was_read_of_the_code_e_trace() {
    let mut ranges = 0;
    for seed in 0..1500 {
        let random = &mut Random(seed);
        let case = case(random);
        let instructions = 10 + random.below(50) as usize;
        let code = Code::new(random, instructions);
        let settings = following(&case, &code);
        let packets: Vec<_> = (0..4)
            .map(|_| {
                let mut payloads = payloads(&case, &code, random);
                if random.below(4) == 0 {
                    damage::damage(&mut payloads, random);
                }
                let mut decoder = PayloadDecoder::new(settings.params, settings.options);
                payloads.iter().map(|payload| decoder.decode(payload)).collect::<Vec<_>>()
            })
            .collect();
        let follower = Etrace::new(settings, code.program.clone());
        ranges += compare(&format!("seed {seed}"), &follower, &packets, &code, random);
    }
    assert!(ranges > 100_000, "{ranges}");
}

#[test]
fn harts_share_what_was_read_of_the_code_n_trace() {
    let mut ranges = 0;
    for seed in 0..600 {
        let random = &mut Random(seed);
        let instructions = 10 + random.below(50) as usize;
        let code = Code::new(random, instructions);
        let packets: Vec<_> = (0..4).map(|_| messages(&code, random)).collect();
        let follower = Ntrace::new(rv::Set::RV64, code.program.clone());
        ranges += compare(&format!("seed {seed}"), &follower, &packets, &code, random);
    }
    assert!(ranges > 50_000, "{ranges}");
}

/// What an N-Trace encoder sends about a random way through the code.
fn messages(code: &Code, random: &mut Random) -> Vec<NtracePacket> {
    let wild = Wildness { returns: true, traps: 10, contexts: 10, taken: 50 };
    let executed = execute(code, random, 400, wild);
    let blocks = ntrace_encoder::blocks(&executed, random, false, Ctype::Precise);
    let mut encoder = Tracer::new(ntrace_encoder::settings(random));
    let mut packets = Vec::new();
    let mut sink = |packet| packets.push(packet);
    for (ingress, _) in &blocks {
        match ingress {
            Ingress::Block(block) => encoder.push(block, &mut sink),
            Ingress::Gap => encoder.unqualified(&mut sink),
        }
    }
    encoder.finish(&mut sink);
    packets
}

#[test]
fn what_was_read_in_another_way_is_given_back() {
    let random = &mut Random(1);
    let (case, code) = (case(random), Code::new(random, 10));
    let settings = following(&case, &code);
    let mut one = Etrace::new(settings.clone(), code.program.clone());
    let mut other = settings;
    other.options.sijump = !other.options.sijump;
    let cache = one.take_cache();
    let cache = Etrace::new(other, code.program.clone()).give_cache(cache).expect_err("paths end elsewhere");
    let cache = Ntrace::new(rv::Set::RV64, code.program.clone()).give_cache(cache).expect_err("other paths");
    assert!(one.give_cache(cache).is_ok());
    let cache = Ntrace::new(rv::Set::RV64, code.program.clone()).take_cache();
    assert!(Ntrace::new(rv::Set::RV32, code.program).give_cache(cache).is_err());
}
