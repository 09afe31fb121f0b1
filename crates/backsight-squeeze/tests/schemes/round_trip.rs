//! What is decompressed is what was compressed: random runs of random programs, every scheme, any parameters.

use crate::support::{Program, Random, there_and_back};
use backsight_core::{Execution, Isa};
use backsight_squeeze::base::Base;
use backsight_squeeze::dmtf::Dmtf;
use backsight_squeeze::general::{General, Program as Compressor};
use backsight_squeeze::lz::Lz;
use backsight_squeeze::mix::Mix;
use backsight_squeeze::sdc::{Sdc, Upper};
use backsight_squeeze::tmbp::{Field, Tmbp};
use backsight_squeeze::{Code, PRESETS, Scheme};
use proptest::prelude::*;

fn first_difference(
    a: &[Execution],
    b: &[Execution],
) -> Option<(usize, Option<Execution>, Option<Execution>)> {
    let at = (0..a.len().max(b.len())).find(|&at| a.get(at) != b.get(at))?;
    Some((at, a.get(at).copied(), b.get(at).copied()))
}

fn check(scheme: &Scheme, seed: u64, instructions: usize, odd: u64, pieces: usize) {
    let mut random = Random::new(seed);
    let length = 3 + random.below(300) as usize;
    let base = [0x1000, 0x0200_01F4, 0xFFFF_0000][random.below(3) as usize];
    let program = Program::new(&mut random, length, base);
    let items = program.run(&mut random, instructions, odd);
    let known = if random.one_in(3) { Code::new(Isa::Rv64, Vec::new()) } else { program.code() };
    let back = there_and_back(scheme, &items, &known, pieces);
    assert_eq!(first_difference(&items, &back), None, "{scheme:?}, seed {seed}");
}

#[test]
fn every_preset_restores_random_runs() {
    for (name, scheme) in PRESETS {
        for seed in 0..20 {
            println!("{name} {seed}");
            let bits = if seed % 2 == 0 { 64 } else { 32 };
            check(
                &scheme.with_address_bits(bits),
                seed,
                3000,
                [0, 30, 500][seed as usize % 3],
                1 + seed as usize % 3,
            );
        }
    }
}

fn field() -> impl Strategy<Value = Field> {
    (1u32..=14, 1u32..=9).prop_map(|(size, step)| Field { size, step })
}

/// Contexts of up to `N` lengths.
fn lengths<const N: usize>(most: u16) -> impl Strategy<Value = [u16; N]> {
    proptest::array::uniform(prop_oneof![0..=most, Just(Mix::UNUSED)])
}

fn mix() -> impl Strategy<Value = Scheme> {
    let contexts = (lengths(64), lengths(20), lengths(16), lengths(32), any::<[bool; 3]>());
    let states = (16u32..500, 3u8..=7, 0u8..=8, 0u16..40, 0u16..20);
    let learning = (any::<u16>(), 1u8..60, 0u16..30, prop_oneof![Just(0u8), 1u8..=90]);
    let targets = (0u16..20, prop_oneof![0u16..20, Just(300)], prop_oneof![Just(0u8), 6u8..12], 1u8..12);
    let address_bits = prop_oneof![Just(32u32), Just(64), Just(40)];
    (contexts, states, learning, targets, address_bits).prop_filter_map(
        "what cannot be built",
        |(contexts, states, learning, targets, address_bits)| {
            let (events, iterations, locals, paths, [loops, runs, layers]) = contexts;
            let (table, state, tag_bits, branches, refined) = states;
            let (surprise, rate, sets, certain) = learning;
            let (returns, targets, buffer_bits, start_bits) = targets;
            let build = Mix {
                table,
                state,
                tag_bits,
                events,
                iterations,
                locals,
                paths,
                loops,
                runs,
                branches,
                surprise,
                rate,
                certain,
                sets,
                layers,
                refined,
                returns,
                targets,
                buffer_bits,
                start_bits,
                address_bits,
            };
            build.check().is_ok().then_some(Scheme::Mix(build))
        },
    )
}

fn scheme() -> impl Strategy<Value = Scheme> {
    let longest = prop_oneof![1u8..6, Just(255), Just(254)];
    let bits = prop_oneof![Just(32u32), Just(64), Just(40)];
    let table = prop_oneof![2u32..9, Just(16), Just(192)];
    prop_oneof![
        (any::<bool>(), longest.clone(), bits.clone()).prop_map(|(grouped, longest, address_bits)| {
            Scheme::Base(Base { grouped, longest, address_bits })
        }),
        (table.clone(), table, proptest::option::of(1u32..24), any::<bool>(), longest.clone(), bits.clone())
            .prop_map(|(first, second, entry_bits, count_runs, longest, address_bits)| Scheme::Dmtf(Dmtf {
                first,
                second,
                entry_bits,
                count_runs,
                longest,
                address_bits,
            })),
        (0u32..6, 1u32..6, 0u32..6, 0u32..3, any::<bool>(), longest.clone(), bits.clone()).prop_filter_map(
            "a cache of one entry",
            |(sets, ways, shift, upper, count_runs, longest, address_bits)| {
                let upper = match upper {
                    0 => Upper::Everywhere,
                    1 => Upper::LastSent { low: 6 + 3 * shift },
                    _ => Upper::LastStream { low: 12 + shift },
                };
                let build =
                    Sdc { sets: 1 << sets, ways, shift, upper, count_runs, align: 1, longest, address_bits };
                build.check().is_ok().then_some(Scheme::Sdc(build))
            }
        ),
        (1u32..10, 0u32..12, 0u32..6, 0u32..9, 0u32..7, 1u32..4, [field(), field(), field()], bits.clone())
            .prop_map(|(index_bits, history_bits, shift, returns, sets, ways, fields, address_bits)| {
                Scheme::Tmbp(Tmbp {
                    index_bits,
                    history_bits,
                    shift,
                    returns,
                    sets: if sets == 0 { 0 } else { 1 << (sets - 1) },
                    ways,
                    branches: fields[0],
                    targets: fields[1],
                    exceptions: fields[2],
                    address_bits,
                })
            }),
        (2u32..9, longest.clone(), bits.clone()).prop_map(|(window, longest, address_bits)| Scheme::Lz(Lz {
            window: 1 << window,
            longest,
            address_bits
        })),
        mix(),
        (1u32..10, longest, bits).prop_map(|(level, longest, address_bits)| Scheme::General(General {
            longest,
            address_bits,
            ..General::new(Compressor::Gzip, level)
        })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_parameters_restore_random_runs(
        scheme in scheme(),
        seed in any::<u64>(),
        odd in prop_oneof![Just(0u64), 1u64..60],
        pieces in 1usize..5,
    ) {
        prop_assert_eq!(scheme.check(), Ok(()));
        check(&scheme, seed, 700, odd, pieces);
    }
}
