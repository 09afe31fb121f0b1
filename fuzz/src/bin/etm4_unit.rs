//! Any stream of execution, sensible or not, in any configuration of the ETMv4 unit: only good packets come out.

#![no_main]

use backsight_arm::etm4::{Config, Decoder, Packet};
use backsight_core::{Address, Context, Execution, Isa, Privilege, Retired, Security, Trap, TrapKind};
use backsight_unit::etm4::{Fifo, FrontEnd, Unit, UnitConfig};

/// Numbers out of the input; 0 behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Small, large, or near the one before.
    fn address(&mut self, near: u64) -> Address {
        let kind = self.byte();
        Address(match kind & 3 {
            0 => near,
            1 => near.wrapping_add_signed(i64::from(self.byte() as i8) * 2),
            2 => self.word().into(),
            _ => u64::from(self.word()) << 32 | u64::from(self.word()),
        })
    }
}

fn options(input: &mut Input<'_>) -> UnitConfig {
    let mut config = if input.byte() & 1 == 0 { Config::etm4_default() } else { Config::ete_default() };
    if input.byte() & 1 == 1 && config.is_ete() {
        config.registers.devarch = 0x4773_5A13;
    }
    config.registers.configr = input.word() & 0x7FFF;
    config.registers.idr0 = input.word();
    config.registers.idr2 = input.word();
    config.registers.ccctlr = input.word() & 0xFFF;
    config.registers.idr8 = input.byte().into();
    let mut options = UnitConfig::new(config);
    options.controls.syncpr = (input.byte() & 15).into();
    options.controls.viiectlr = (input.byte() & 1).into();
    options.controls.set_range(0, 0, u64::from(input.word()));
    options.controls.qctlr = (input.byte() & 1).into();
    options.timestamps.first = u64::from(input.word()) << 32;
    options.return_stack_depth = input.byte();
    options.halt_at_end = input.byte() & 1 == 0;
    let choices = input.byte();
    options.events = (choices & 1 != 0).then_some((10, 3));
    options.fifo = (choices & 2 != 0).then(|| Fifo { capacity: input.byte().into(), drain: input.word() });
    options.front_end =
        (choices & 4 != 0).then(|| FrontEnd { seed: 9, wrong: 100, longest_path: input.byte() });
    options.source_addresses = (choices & 8 != 0).then_some(0);
    options
}

fn item(input: &mut Input<'_>, position: &mut u64) -> Execution {
    let kind = input.byte();
    match kind & 15 {
        0 => Execution::Gap,
        1 => Execution::Context(Context {
            privilege: Privilege::Arm {
                level: input.byte(),
                security: if kind & 16 == 0 { Security::NonSecure } else { Security::Root },
            },
            wide: kind & 32 == 0,
            vmid: Some(input.word()),
            context_id: Some(input.word().into()),
        }),
        2 => {
            let return_address = input.address(*position);
            let handler = input.address(*position);
            *position = handler.0;
            let (cause, cycle) = (input.word() & 0x7FF, 0);
            Execution::Trap(Trap {
                kind: TrapKind::Exception,
                cause,
                value: 0,
                return_address,
                handler,
                cycle,
            })
        }
        _ => {
            let isa = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv64][usize::from(kind >> 4 & 3)];
            let opcodes =
                [0xD65F_03C0, 0x9400_0010, 0xD69F_03E0, 0xE12F_FF1E, 0x4770, 0xD523_3060, 0xD503_307F];
            let which = usize::from(input.byte() & 15);
            let opcode = opcodes.get(which).copied().unwrap_or_else(|| input.word());
            let address = input.address(*position);
            let size = if isa == Isa::T32 && opcode < 0x1_0000 { 2 } else { 4 };
            let next = input.address(address.0.wrapping_add(size.into()));
            *position = next.0;
            let cycle = u64::from(input.byte()) << (input.byte() & 63);
            Execution::Instruction(Retired { address, next, cycle, opcode, size, isa, taken: kind & 64 == 0 })
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let input = &mut Input(data);
    let options = options(input);
    let config = options.config;
    let Ok(mut unit) = Unit::new(options) else { return };
    let mut bytes = Vec::new();
    let mut position = 0x1000;
    while !input.0.is_empty() {
        let item = item(input, &mut position);
        unit.push(item, &mut bytes);
    }
    unit.finish(&mut bytes);
    let statistics = unit.statistics();
    let all = statistics.traced + statistics.filtered + statistics.lost + statistics.untold;
    assert_eq!(all, statistics.instructions);
    let mut decoder = Decoder::new(&config);
    let mut sink = |packet: backsight_core::Located<Packet>| {
        assert!(!matches!(packet.value, Packet::Bad(_) | Packet::Unsynchronised), "{packet:x?}");
    };
    decoder.feed(&bytes, &mut sink);
    decoder.finish(&mut sink);
});
