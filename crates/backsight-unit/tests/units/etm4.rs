//! What the unit writes, decoded, is what was executed.

use crate::support::decode::{addresses, assert_same, trace, truth};
use crate::support::{Flavour, Program, Walk, Walker};
use backsight_arm::etm4::Config;
use backsight_core::{Privilege, Security};
use backsight_testing::Random;
use backsight_unit::etm4::{FrontEnd, UnitConfig};

/// A unit of any kind that loses nothing: every feature on or off by chance.
fn any_unit(random: &mut Random) -> UnitConfig {
    let mut chance = |one_of: u64| random.below(one_of) == 0;
    let ete = chance(2);
    let mut config = if ete { Config::ete_default() } else { Config::etm4_default() };
    if ete && chance(2) {
        config.registers.devarch = 0x4773_5A13;
        config.registers.idr0 |= 1 << 23;
        config.registers.idr2 |= 1 << 31;
    } else if !ete && chance(2) {
        config.registers.idr1 = 0x4100_F450;
        config.registers.idr2 |= 1 << 31;
    }
    for bit in [3, 4, 11, 12] {
        config.registers.configr |= u32::from(chance(2)) << bit;
    }
    if chance(4) {
        config.registers.configr &= !0xC0;
    }
    if !ete && chance(3) {
        config.registers.idr0 |= 0b110;
        config.registers.configr |= 0b110;
    }
    if chance(2) {
        config.registers.idr0 &= !(1 << 29);
    }
    let mut options = UnitConfig::new(config);
    options.controls.bbctlr = u32::from(chance(2)) * 0x101;
    options.controls.set_range(0, 0x40_0000, 0x40_1000);
    options.source_addresses = (ete && chance(3)).then(|| random.below(3) as u32);
    options.config.registers.ccctlr = [0, 4, 22, 300][random.below(4) as usize];
    options.controls.syncpr = [0, 6, 8, 12][random.below(4) as usize];
    options.return_stack_depth = 1 + random.below(15) as u8;
    options.timestamps.period = 1 + random.below(500);
    options.timestamps.first = random.next() >> random.below(64);
    options.events = (random.below(3) == 0).then(|| (1 + random.below(300), 1 + random.below(15) as u8));
    if random.below(2) == 0 {
        options.config.registers.idr8 = 1 + random.below(40) as u32;
        let wrong = random.below(100) as u8;
        let longest_path = random.below(20) as u8;
        options.front_end = Some(FrontEnd { seed: random.next(), wrong, longest_path });
    }
    options.context.privilege = Privilege::Arm { level: 0, security: Security::NonSecure };
    options
}

#[test]
fn what_is_decoded_is_what_was_executed_in_every_configuration() {
    for seed in 0..150 {
        let random = &mut Random(seed);
        let flavour = if random.below(2) == 0 { Flavour::A64 } else { Flavour::AArch32 };
        let options = any_unit(random);
        let program = Program::random(seed, flavour, options.config.is_ete());
        let walk = Walk {
            seed,
            steps: 1500,
            handlers: random.below(3) != 0,
            interrupts: [0, 3, 50, 200][random.below(4) as usize],
            contexts: [0, 20, 100][random.below(3) as usize],
            gaps: [0, 0, 200][random.below(3) as usize],
            cycles: random.below(3) != 0,
        };
        let items = Walker::run(&program, walk);
        let decoded = trace(&options, &program, &items);
        let truth = truth(&items);
        let what = || format!("seed {seed}\n{options:x?}\n{walk:?}");
        assert_same(&addresses(&program, &decoded.events), &truth, what);
        assert_eq!(decoded.statistics.traced, truth.len() as u64, "{}", what());
    }
}
