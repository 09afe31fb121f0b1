//! However ETMv3 atoms are followed, by links from block to block or each by a look at the code, what was executed is the
//! same: for code and packets by chance, sensible or not, and code that changes on the way.

use std::collections::BTreeMap;

use backsight_arm::etm3::{
    Bad, Branch, Config, CycleMarks, DataAddress, DataValue, Decoded, Decoder, ISync, Information, PHeader,
    Packet, Reason, State, Timestamp,
};
use backsight_core::{Address, AddressSpace, Isa, Located};
use backsight_flow::etm3::{Follower, Options};
use backsight_flow::{Event, Statistics};
use backsight_image::Code;
use proptest::prelude::*;

const BASE: u64 = 0x1000;
/// Bytes of code.
const SIZE: u64 = 128;

/// Instructions of each kind that counts: plain, loads and stores, conditional, branches of every kind, undefined.
const A32: [u32; 16] = [
    0xE320_F000, // nop
    0xE280_0001, // add r0, r0, #1
    0x0280_0001, // addeq r0, r0, #1
    0xE591_0004, // ldr r0, [r1, #4]
    0x1581_0004, // strne r0, [r1, #4]
    0xE181_2F90, // strex r2, r0, [r1]
    0xE92D_4070, // push {r4, r5, r6, lr}
    0xEA00_0001, // b +4
    0x0AFF_FFFA, // beq -6
    0xEAFF_FFFE, // b .
    0xEB00_0003, // bl +12
    0xFA00_0002, // blx +8
    0xE12F_FF1E, // bx lr
    0x012F_FF1E, // bxeq lr
    0xEE11_0F10, // mrc p15, 0, r0, c1, c0, 0
    0xE7F0_00F0, // udf
];

const T32: [u16; 20] = [
    0xBF00, // nop
    0x1840, // adds r0, r0, r1
    0xBF08, // it eq
    0xBF0C, // ite eq
    0xBF01, // itttt eq
    0x6808, // ldr r0, [r1]
    0x6008, // str r0, [r1]
    0xB510, // push {r4, lr}
    0xBD10, // pop {r4, pc}
    0xD002, // beq +4
    0xD1F9, // bne -14
    0xE001, // b +2
    0xE7FE, // b .
    0x4770, // bx lr
    0xB118, // cbz r0, +6
    0xDE00, // udf
    0xF000, 0xF804, // bl +8
    0xF3BF, 0x8F6F, // isb
];

#[derive(Clone, Debug)]
struct Memory(Vec<u8>);

impl Code for Memory {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.checked_sub(BASE)?).ok()?;
        self.0.get(offset..).filter(|rest| !rest.is_empty())
    }
}

impl Memory {
    fn new(isa: Isa, choices: &[u8]) -> Self {
        let pick = |choice: &u8| match isa {
            Isa::A32 => A32[usize::from(*choice) % A32.len()].to_le_bytes().to_vec(),
            _ => T32[usize::from(*choice) % T32.len()].to_le_bytes().to_vec(),
        };
        Self(choices.iter().flat_map(pick).take(SIZE as usize).collect())
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Packet(Packet),
    /// The code at an offset changes.
    Change(usize, [u8; 2]),
}

fn p_header(kind: u8, a: u64) -> PHeader {
    let count = if kind & 1 == 0 { 15 } else { (a >> 16 & 15) as u8 + 1 };
    // Most atoms are of instructions that were executed.
    let atoms = (a | a >> 20 | a >> 40) as u16 & ((1_u32 << count) - 1) as u16;
    let cycles = match a >> 60 {
        0..=7 => CycleMarks::NotTraced,
        8..=11 => CycleMarks::BeforeEach,
        cycles => CycleMarks::Before(cycles as u8 - 12),
    };
    PHeader { atoms, count, cycles }
}

fn step(isa: Isa, (kind, a, b): (u8, u64, u64)) -> Step {
    let address = Address((BASE + a % (SIZE + 8)) & if isa == Isa::A32 { !3 } else { !1 });
    let data_address = (b & 1 == 0).then_some(DataAddress::full(b as u32, false));
    Step::Packet(match kind % 32 {
        0..=13 => Packet::PHeader(p_header(kind, a)),
        14 | 15 => Packet::PHeader(PHeader { atoms: 0, count: 0, cycles: CycleMarks::Before(a as u8 & 7) }),
        16..=18 => Packet::ISync(ISync {
            address: Some(address),
            isa,
            reason: [Reason::Periodic, Reason::TraceEnabled, Reason::AfterOverflow, Reason::Periodic]
                [b as usize & 3],
            state: State { alt_isa: false, non_secure: b & 4 != 0, hyp: false },
            context_id: (b & 8 != 0).then_some(b as u32 >> 30),
            cycles: (b & 16 != 0).then_some(a as u32),
            next: None,
        }),
        19..=23 => Packet::Branch(Branch {
            address,
            is_complete: true,
            isa,
            bytes: 5,
            information: (b & 7 == 0).then_some(Information {
                state: State::default(),
                exception: (b >> 8 & 15) as u16,
                cancels: b & 8 != 0,
                is_long: false,
                resume: None,
            }),
            early: None,
        }),
        24 | 25 => Packet::NormalData {
            begins: data_address.is_some(),
            address: data_address,
            value: Some(DataValue::new(a as u32)),
        },
        26 => match b & 3 {
            0 => Packet::StoreFailed,
            1 => Packet::ExceptionExit,
            2 => Packet::OutOfOrderPlaceholder { tag: 1, begins: false, address: None },
            _ => Packet::OutOfOrderData { tag: 1, value: DataValue::new(a as u32) },
        },
        27 => Packet::Timestamp(Timestamp { value: a, bytes: 7, clock_changed: false }),
        28 => Packet::ContextId(a as u32 & 3),
        29 if b & 3 == 0 => Packet::Bad(Bad::Reserved),
        29 => Packet::Trigger,
        _ => return Step::Change((a % SIZE) as usize & !1, [b as u8, (b >> 8) as u8]),
    })
}

fn follow(
    config: &Config,
    options: Options,
    memory: &Memory,
    steps: &[Step],
) -> (Vec<Located<Event>>, Statistics) {
    let mut follower = Follower::with_options(config, memory.clone(), options);
    let mut events = Vec::new();
    for (offset, step) in (0..).zip(steps) {
        match step {
            Step::Packet(value) => {
                follower.push(Located { offset, length: 1, value: *value }, &mut |event| events.push(event));
            }
            Step::Change(at, bytes) => {
                let address = BASE + *at as u64;
                let code = follower.change_code(AddressSpace::ANY, address..address + 2);
                if let Some(to) = code.0.get_mut(*at..*at + 2) {
                    to.copy_from_slice(bytes);
                }
            }
        }
    }
    follower.finish(&mut |event| events.push(event));
    (events, *follower.statistics())
}

/// The same, each atom in a P-header of its own.
fn follow_atom_by_atom(
    config: &Config,
    memory: &Memory,
    steps: &[Step],
) -> (Vec<Located<Event>>, Statistics) {
    let mut follower = Follower::new(config, memory.clone());
    let mut events = Vec::new();
    for (offset, step) in (0..).zip(steps) {
        let mut push =
            |value| follower.push(Located { offset, length: 1, value }, &mut |event| events.push(event));
        match step {
            Step::Packet(Packet::PHeader(header @ PHeader { count: 1.., .. })) => {
                for index in 0..header.count {
                    let cycles = match header.cycles {
                        CycleMarks::BeforeEach => CycleMarks::Before(1),
                        CycleMarks::Before(_) if index > 0 => CycleMarks::Before(0),
                        cycles => cycles,
                    };
                    push(Packet::PHeader(PHeader { atoms: header.atoms >> index & 1, count: 1, cycles }));
                }
            }
            Step::Packet(value) => push(*value),
            Step::Change(..) => {}
        }
    }
    follower.finish(&mut |event| events.push(event));
    (events, *follower.statistics())
}

/// Events, and the cycles of each packet: those of lost atoms are counted together, so that only their sum is the same
/// however atoms are cut.
fn apart(events: Vec<Located<Event>>) -> (Vec<Located<Event>>, BTreeMap<u64, u32>) {
    let mut sums = BTreeMap::new();
    let mut others = events;
    others.retain(|event| match event.value {
        Event::CycleCount(Some(cycles)) => {
            let sum: &mut u32 = sums.entry(event.offset).or_default();
            *sum = sum.wrapping_add(cycles);
            false
        }
        _ => true,
    });
    (others, sums)
}

fn config(settings: u8) -> Config {
    let mut config = Config::default();
    let data = ["none", "both", "address", "none"][usize::from(settings & 3)];
    config.set("data", data).unwrap();
    config.set("core", if settings & 4 == 0 { "Cortex-A7" } else { "Cortex-M3" }).unwrap();
    config.registers.cr |= u32::from(settings >> 3 & 1) << 1;
    config
}

/// Bytes of a stream: a beginning in good order, then P-headers, branches, I-syncs, exceptions and noise.
fn stream(isa: Isa, draws: &[(u8, u64)]) -> Vec<u8> {
    let thumb = u8::from(isa == Isa::T32);
    let i_sync = |information: u8, address: u8| [0x08, information, address & 0x7C | thumb, 0x10, 0, 0];
    let mut bytes = vec![0, 0, 0, 0, 0, 0x80];
    bytes.extend(i_sync(0x21, 0));
    for &(kind, a) in draws {
        let random = a.to_le_bytes();
        match kind % 16 {
            0..=9 => bytes.extend(random.map(|byte| byte & 0x7C | 0x80)),
            10 => bytes.extend(random[..2].iter().map(|byte| byte & 0x0E | 0x80)),
            11 => bytes.push(random[0] & 0x7E | 1),
            12 => bytes.extend(i_sync(random[0] & 0x60 | 1, random[1])),
            // An exception that may cancel.
            13 => {
                let end = if thumb == 1 { 0x50 } else { 0x48 };
                bytes.extend([0x81, 0x88, 0x80, 0x80, end, random[1] & 0x3E]);
            }
            14 if random[0] & 3 == 0 => bytes.extend(&random[1..]),
            _ => bytes.extend([random[0] & 0x3C | 0x80, 0xBC, 0xA0]),
        }
    }
    bytes
}

/// The events of bytes in pieces, P-headers in runs or not.
fn decode(
    config: &Config,
    memory: &Memory,
    pieces: &[&[u8]],
    runs: bool,
) -> (Vec<Located<Event>>, Statistics) {
    let mut decoder = Decoder::new(config);
    let mut follower = Follower::new(config, memory);
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    for piece in pieces {
        if runs {
            decoder.feed_runs(piece, &mut |decoded| match decoded {
                Decoded::Packet(packet) => follower.push(packet, &mut sink),
                Decoded::PHeaders { offset, headers } => follower.push_p_headers(offset, headers, &mut sink),
            });
        } else {
            decoder.feed(piece, &mut |packet| follower.push(packet, &mut sink));
        }
    }
    decoder.finish(&mut |packet| follower.push(packet, &mut sink));
    follower.finish(&mut sink);
    (events, *follower.statistics())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn runs_of_p_headers_are_followed_like_single_ones(
        settings in any::<u8>(),
        code in prop::collection::vec(any::<u8>(), 8..64),
        draws in prop::collection::vec(any::<(u8, u64)>(), 1..60),
        cut in any::<usize>(),
    ) {
        let isa = if settings & 0x40 == 0 { Isa::A32 } else { Isa::T32 };
        let memory = Memory::new(isa, &code);
        let mut config = config(settings);
        config.registers.cr |= u32::from(settings >> 4 & 1) << 12;
        let bytes = stream(isa, &draws);
        let expected = decode(&config, &memory, &[&bytes], false);
        prop_assert_eq!(&decode(&config, &memory, &[&bytes], true), &expected);
        let (before, after) = bytes.split_at(cut % bytes.len());
        prop_assert_eq!(&decode(&config, &memory, &[before, after], true), &expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn links_between_blocks_lead_where_a_look_at_the_code_does(
        settings in any::<u8>(),
        code in prop::collection::vec(any::<u8>(), 8..64),
        draws in prop::collection::vec(any::<(u8, u64, u64)>(), 1..120),
        strict_image in any::<bool>(),
        keeps_cancelled in any::<bool>(),
    ) {
        let isa = if settings & 0x40 == 0 { Isa::A32 } else { Isa::T32 };
        let memory = Memory::new(isa, &code);
        let first = (16, 0, 1);
        let steps: Vec<Step> = [first].into_iter().chain(draws).map(|draw| step(isa, draw)).collect();
        let options = Options { strict_image, keeps_cancelled, ..Options::default() };
        let expected = follow(&config(settings), Options { cached_blocks: 1, ..options }, &memory, &steps);
        prop_assert_eq!(&follow(&config(settings), options, &memory, &steps), &expected);
        let few = Options { cached_blocks: 5, ..options };
        prop_assert_eq!(&follow(&config(settings), few, &memory, &steps), &expected);
    }

    #[test]
    fn atoms_of_one_packet_are_followed_like_atoms_of_many(
        settings in any::<u8>(),
        code in prop::collection::vec(any::<u8>(), 8..64),
        draws in prop::collection::vec(any::<(u8, u64, u64)>(), 1..120),
    ) {
        let isa = if settings & 0x40 == 0 { Isa::A32 } else { Isa::T32 };
        let memory = Memory::new(isa, &code);
        let draws = [(16, 0, 1)].into_iter().chain(draws.into_iter().filter(|draw| draw.0 % 32 < 30));
        let steps: Vec<Step> = draws.map(|draw| step(isa, draw)).collect();
        let (events, statistics) = follow(&config(settings), Options::default(), &memory, &steps);
        let (alone, expected) = follow_atom_by_atom(&config(settings), &memory, &steps);
        prop_assert_eq!(apart(events), apart(alone));
        prop_assert_eq!(statistics, expected);
    }
}
