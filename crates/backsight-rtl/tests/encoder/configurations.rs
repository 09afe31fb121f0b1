//! Encoders that are simulated.

use backsight_riscv::encap::{Encapsulation, Framing};
use backsight_riscv::etrace::{ImplicitReturn, SupportLayout};
use backsight_rtl::etrace::{Comparators, Options};
use backsight_unit::cva6::Fidelity;
use backsight_unit::etrace::UnitConfig;
use backsight_unit::riscv::{Resync, ResyncMode};

/// RV64 over ATB with a resynchronisation after every few packets.
pub fn rv64() -> UnitConfig {
    let mut unit = UnitConfig { framing: Framing::ATB, ..UnitConfig::default() };
    unit.params.iaddress_width = 64;
    unit.params.ecause_width = 5;
    unit.settings.resync = Resync { mode: ResyncMode::Packets, limit: 8 };
    unit
}

pub fn lossless(unit: UnitConfig) -> Options {
    Options { lossless: true, filter: Comparators::default(), ..Options::new(unit) }
}

fn cva6(fidelity: Fidelity, resync: Resync) -> UnitConfig {
    let mut unit = UnitConfig { params: backsight_riscv::cva6::params(), cva6: Some(fidelity), ..rv64() };
    unit.settings.resync = resync;
    unit
}

/// Every option and width, each in some configuration.
pub fn configurations() -> Vec<(&'static str, Options)> {
    let with = |change: &dyn Fn(&mut UnitConfig)| {
        let mut unit = rv64();
        change(&mut unit);
        lossless(unit)
    };
    let cycles = |limit| Resync { mode: ResyncMode::Cycles, limit };
    vec![
        ("usual", with(&|_| {})),
        (
            "rv32",
            Options {
                bus: 4,
                ..with(&|unit| {
                    unit.params.iaddress_width = 32;
                    unit.params.itype_width = 3;
                    unit.framing = Framing::REFERENCE;
                    unit.settings.resync = cycles(60);
                })
            },
        ),
        (
            "wide",
            Options {
                bus: 8,
                ports: 4,
                ..with(&|unit| {
                    unit.params.iaddress_width = 48;
                    unit.params.iaddress_lsb = 0;
                    unit.params.privilege_width = 3;
                    (unit.params.nocontext, unit.params.context_width) = (0, 16);
                    (unit.params.notime, unit.params.time_width) = (0, 32);
                    unit.params.layout = SupportLayout::Standard;
                    unit.framing = Framing::SIEMENS;
                    unit.source = 0x2B;
                    unit.sync_period = 200;
                    unit.settings.resync = Resync { mode: ResyncMode::HalfWords, limit: 100 };
                })
            },
        ),
        (
            "options",
            Options {
                ports: 1,
                ..with(&|unit| {
                    unit.options.full_address = true;
                    unit.options.implicit_exception = true;
                    unit.options.sijump = true;
                    unit.params.sijump = 1;
                    (unit.params.nocontext, unit.params.context_width) = (0, 8);
                    unit.framing = Framing::Reference { hart_bits: 10 };
                    unit.source = 0x2A1;
                    unit.settings.resync = Resync::default();
                })
            },
        ),
        (
            "sijump",
            Options {
                bus: 2,
                packets: 4,
                ..with(&|unit| {
                    unit.options.sijump = true;
                    unit.params.sijump = 1;
                    unit.settings.shallow = true;
                    (unit.params.notime, unit.params.time_width) = (0, 20);
                    unit.params.layout = SupportLayout::Cva6;
                    let encapsulation = Encapsulation { source_bits: 12, time_bytes: 0, type_bits: 4 };
                    unit.framing =
                        Framing::Standard(Encapsulation { type_bits: 0, source_bits: 8, ..encapsulation });
                    unit.source = 9;
                    unit.sync_period = 0;
                })
            },
        ),
        (
            "returns",
            with(&|unit| {
                unit.options.implicit_return = true;
                unit.params.implicit_return = ImplicitReturn::Returns;
                unit.params.return_stack_size = 2;
                (unit.params.nocontext, unit.params.context_width) = (0, 8);
                unit.settings.resync.limit = 60;
            }),
        ),
        (
            "counted-returns",
            with(&|unit| {
                unit.options.implicit_return = true;
                unit.params.implicit_return = ImplicitReturn::Returns;
                unit.params.call_counter_size = 9;
                unit.settings.resync = cycles(5000);
            }),
        ),
        (
            "predictor",
            with(&|unit| {
                unit.options.branch_prediction = true;
                unit.params.bpred_size = 3;
                unit.settings.resync.limit = 30;
            }),
        ),
        (
            "cache",
            with(&|unit| {
                unit.options.jump_target_cache = true;
                unit.params.cache_size = 5;
                unit.params.iaddress_lsb = 0;
                unit.settings.resync.limit = 50;
            }),
        ),
        (
            "tables",
            Options {
                bus: 4,
                ..with(&|unit| {
                    unit.options.implicit_return = true;
                    unit.options.branch_prediction = true;
                    unit.options.jump_target_cache = true;
                    unit.options.resync_disabled = true;
                    unit.options.sijump = true;
                    unit.params.sijump = 1;
                    unit.params.implicit_return = ImplicitReturn::Returns;
                    (unit.params.return_stack_size, unit.params.call_counter_size) = (3, 7);
                    (unit.params.bpred_size, unit.params.cache_size, unit.params.f0s_width) = (5, 4, 2);
                    (unit.params.nocontext, unit.params.context_width) = (0, 8);
                    unit.params.layout = SupportLayout::Standard;
                })
            },
        ),
        ("cva6", lossless(cva6(Fidelity::Followable, cycles(50)))),
        ("cva6-rtl", lossless(cva6(Fidelity::Rtl, Resync { mode: ResyncMode::Packets, limit: 17 }))),
        ("cva6-full", {
            let mut unit = cva6(Fidelity::Rtl, Resync { mode: ResyncMode::HalfWords, limit: 64 });
            unit.options.full_address = true;
            unit.settings.shallow = true;
            lossless(unit)
        }),
    ]
}

/// The configuration of that name.
pub fn configuration(name: &str) -> Options {
    configurations().into_iter().find(|(other, _)| *other == name).expect("a configuration").1
}
