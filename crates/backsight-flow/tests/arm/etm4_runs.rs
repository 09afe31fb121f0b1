//! Runs of atoms at once, and packet by packet: random code, with calls and returns, and other code at the same addresses in
//! another space.

use crate::scene::*;
use backsight_arm::etm4::{Config, Decoder, Encoder, Packet};
use backsight_core::{Address, AddressSpace, Located};
use backsight_flow::etm4::Follower;
use backsight_flow::{Event, Statistics};
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
fn random_packets(random: &mut Random) -> Vec<Packet> {
    let mut packets = vec![Packet::Async, trace_info()];
    for _ in 0..60 {
        if random.below(4) == 0 {
            packets.push(Packet::Context(Some(context_of(1 + random.below(2) as u8, true))));
        }
        // The same few addresses, with the same few outcomes: as many as make a path, or fewer.
        packets.push(address(0x1000 + 4 * random.below(6)));
        let outcomes = [["E", "EE"], ["N", "EEE"], ["E", "NE"]][random.below(3) as usize];
        let count = [1, 3, 9, 17][random.below(4) as usize];
        packets.extend(outcomes.iter().cycle().take(count).map(|outcomes| atoms(outcomes)));
    }
    packets
}

fn encoded(config: &Config, packets: &[Packet]) -> Vec<u8> {
    let mut encoder = Encoder::new(config);
    packets.iter().flat_map(|packet| encoder.encode(packet).expect("a packet").to_vec()).collect()
}

fn followed(
    config: &Config,
    code: &TwoSpaces,
    stream: &[u8],
    by_runs: bool,
) -> (Vec<Located<Event>>, Statistics) {
    let (mut events, mut decoder) = (Vec::new(), Decoder::new(config));
    let mut follower = Follower::new(config, code);
    let mut sink = |event: Located<Event>| events.push(event);
    match by_runs {
        true => decoder.feed_to(stream, &mut follower.input(&mut sink)),
        false => decoder.feed(stream, &mut |packet| follower.push(packet, &mut sink)),
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
        let packets = random_packets(&mut random);
        // Three times, so that paths that were walked come again.
        let stream = encoded(&config, &packets).repeat(3);
        let (events, statistics) = followed(&config, &code, &stream, false);
        let (by_runs, counted) = followed(&config, &code, &stream, true);
        assert!(events == by_runs, "round {round}");
        assert_eq!(statistics, counted, "round {round}");
        assert!(statistics.ranges > 100, "round {round}: {statistics:?}");
    }
}
