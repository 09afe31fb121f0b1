//! Runs of atoms at once, and packet by packet: random code, with calls and returns, and other code at the same addresses in
//! another space; cycle counts and timestamps between them.

use crate::scene::*;
use backsight_arm::etm4::{Config, CycleCount, CycleCountFormat, Decoder, Encoder, Packet, Timestamp};
use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::etm4::Follower;
use backsight_flow::{Buffer, Event, Statistics};
use backsight_image::Code;
use backsight_testing::Random;

/// Instructions of each space.
const LENGTH: u64 = 40;

/// The code of EL1 and EL0, and that of EL2.
struct TwoSpaces([Memory; 2]);

impl Code for TwoSpaces {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        self.0[usize::from(space != AddressSpace::EL1N)].bytes_at(space, address)
    }
}

fn random_code(random: &mut Random) -> Memory {
    let instructions: Vec<u32> = (0..LENGTH)
        .map(|at| {
            let distance = random.below(LENGTH) as i32 - at as i32;
            match random.below(20) {
                0..=5 => NOP,
                6..=11 => cbz(distance),
                12..=14 => bl(distance),
                15..=17 => b(distance),
                18 => RET,
                _ => BLR,
            }
        })
        .collect();
    words(&instructions)
}

/// Packets that begin with all that a follower needs, and change the space now and then.
fn random_packets(random: &mut Random, counts: bool) -> Vec<Packet> {
    let mut packets = vec![Packet::Async, trace_info()];
    for _ in 0..60 {
        if random.below(4) == 0 {
            packets.push(Packet::Context(Some(context_of(1 + random.below(2) as u8, true))));
        }
        // The same few addresses, with the same few outcomes: as many as make a path, or fewer.
        packets.push(address(0x1000 + 4 * random.below(6)));
        let outcomes = [["E", "EE"], ["N", "EEE"], ["E", "NE"]][random.below(3) as usize];
        let count = [1, 3, 9, 17][random.below(4) as usize];
        // A count after each packet, after some, after an address, or two of them.
        let every = 1 + random.below(4);
        for outcomes in outcomes.iter().cycle().take(count) {
            if counts && random.below(20) == 0 {
                packets.push(random_time(random));
            }
            packets.push(atoms(outcomes));
            for _ in 0..[1, 1, 1, 2][random.below(4) as usize] {
                packets.extend((counts && random.below(every) == 0).then(|| random_count(random)));
            }
        }
    }
    packets
}

fn random_count(random: &mut Random) -> Packet {
    use CycleCountFormat::*;
    let (format, cycles) = [(F3, 3), (F2, 15), (F1, 1 << 20)][random.below(3) as usize];
    let cycles = (format != F1 || random.below(3) > 0).then(|| random.below(cycles) as u32);
    Packet::CycleCount(CycleCount { format, commit: 0, cycles })
}

fn random_time(random: &mut Random) -> Packet {
    let value = random.below(1 << 40);
    Packet::Timestamp(Timestamp { value, bytes: 9, cycles: None })
}

fn encoded(config: &Config, packets: &[Packet]) -> Vec<u8> {
    let mut encoder = Encoder::new(config);
    packets.iter().flat_map(|packet| encoder.encode(packet).expect("a packet").to_vec()).collect()
}

/// How a stream is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    PacketByPacket,
    /// Many packets at a time, in pieces of a stream of so many bytes.
    ByRuns(usize),
    /// The same into a sink that has enough again and again.
    Paused(usize),
}

fn followed(config: &Config, code: &TwoSpaces, stream: &[u8], way: Way) -> (Vec<Located<Event>>, Statistics) {
    let (mut events, mut decoder) = (Vec::new(), Decoder::new(config));
    let mut follower = Follower::new(config, code);
    let mut sink = |event: Located<Event>| events.push(event);
    match way {
        Way::PacketByPacket => decoder.feed(stream, &mut |packet| follower.push(packet, &mut sink)),
        Way::ByRuns(piece) => {
            for piece in stream.chunks(piece) {
                decoder.feed_to(piece, &mut follower.input(&mut sink));
            }
        }
        Way::Paused(piece) => {
            let mut buffer = Buffer::new(5);
            for piece in stream.chunks(piece) {
                decoder.feed_to(piece, &mut follower.input(&mut buffer));
                buffer.drain().for_each(&mut sink);
                while follower.is_paused() {
                    follower.resume(&mut buffer);
                    buffer.drain().for_each(&mut sink);
                }
            }
        }
    }
    decoder.finish(&mut |packet| follower.push(packet, &mut sink));
    follower.finish(&mut sink);
    let statistics = *follower.statistics();
    (events, statistics)
}

#[test]
fn runs_are_followed_as_packet_by_packet_with_a_return_stack_and_in_two_spaces() {
    let mut random = Random(11);
    for round in 0..150 {
        let config = if round % 3 == 0 { etm4(&[]) } else { with_return_stack() };
        let code = TwoSpaces([random_code(&mut random), random_code(&mut random)]);
        let packets = random_packets(&mut random, false);
        // Three times, so that paths that were walked come again.
        let stream = encoded(&config, &packets).repeat(3);
        let (events, statistics) = followed(&config, &code, &stream, Way::PacketByPacket);
        let (by_runs, counted) = followed(&config, &code, &stream, Way::ByRuns(usize::MAX));
        assert!(events == by_runs, "round {round}");
        assert_eq!(statistics, counted, "round {round}");
        assert!(statistics.ranges > 100, "round {round}: {statistics:?}");
    }
}

#[test]
fn cycle_counts_and_times_come_where_they_come_packet_by_packet() {
    let mut random = Random(12);
    for round in 0..150 {
        // Cycle counts and timestamps, commits by counts left out; with a return stack every other time.
        let config = etm4(&[("TRCIDR0", 0x2800_0EA1), ("TRCCONFIGR", 1 << 4 | 1 << 11 | (round % 2) << 12)]);
        let code = TwoSpaces([random_code(&mut random), random_code(&mut random)]);
        let packets = random_packets(&mut random, true);
        let stream = encoded(&config, &packets).repeat(3);
        let (events, statistics) = followed(&config, &code, &stream, Way::PacketByPacket);
        let piece = 64 + random.below(2000) as usize;
        for way in [Way::ByRuns(usize::MAX), Way::ByRuns(piece), Way::Paused(piece)] {
            let (by_runs, counted) = followed(&config, &code, &stream, way);
            assert!(events == by_runs, "round {round}, {way:?}");
            assert_eq!(statistics, counted, "round {round}, {way:?}");
        }
        let counts = events.iter().filter(|event| matches!(event.value, Event::CycleCount(_))).count();
        assert!(statistics.ranges > 100 && counts > 100, "round {round}: {counts}, {statistics:?}");
    }
}
