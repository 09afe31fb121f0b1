//! The first capture that a newcomer meets: `testdata/captures/first`, made here. `BLESS=1` writes it again.
//!
//! A small A64 program computes a Fibonacci number by calling itself, is interrupted now and then, makes two system
//! calls and ends. An ETMv4 traces it at EL0.

use crate::support::decode::truth;
use crate::support::snapshot::{self, Source};
use crate::support::{Flavour, Program};
use backsight_arm::etm4::Config;
use backsight_arm::frame::{FormatterConfig, Framing};
use backsight_core::{Address, Context, Execution, Isa, Retired, Security, Trap, TrapKind};
use backsight_testing::{assert_golden, repository};
use backsight_unit::{System, etm4::UnitConfig};

const BASE: u64 = 0x40_0000;

#[rustfmt::skip]
const CODE: [u32; 22] = [
    0xD280_0140, // main: mov  x0, #10
    0x9400_0005, //       bl   fib
    0xD280_0808, //       mov  x8, #64
    0xD400_0001, //       svc  #0
    0xD280_0BA8, //       mov  x8, #93
    0xD400_0001, //       svc  #0
    0xF100_041F, // fib:  cmp  x0, #1
    0x5400_01C9, //       b.ls done
    0xD100_83FF, //       sub  sp, sp, #32
    0xF900_03FE, //       str  x30, [sp]
    0xF900_07E0, //       str  x0, [sp, #8]
    0xD100_0400, //       sub  x0, x0, #1
    0x97FF_FFFA, //       bl   fib
    0xF900_0BE0, //       str  x0, [sp, #16]
    0xF940_07E0, //       ldr  x0, [sp, #8]
    0xD100_0800, //       sub  x0, x0, #2
    0x97FF_FFF6, //       bl   fib
    0xF940_0BE1, //       ldr  x1, [sp, #16]
    0x8B01_0000, //       add  x0, x0, x1
    0xF940_03FE, //       ldr  x30, [sp]
    0x9100_83FF, //       add  sp, sp, #32
    0xD65F_03C0, // done: ret
];

/// A processor that knows the instructions above.
struct Machine {
    x: [u64; 32],
    stack: [u64; 64],
    pc: u64,
    lower_or_same: bool,
    cycle: u64,
    items: Vec<Execution>,
}

impl Machine {
    fn step(&mut self) {
        let opcode = CODE[(self.pc - BASE) as usize / 4];
        let (rd, rn, immediate) =
            ((opcode & 31) as usize, (opcode >> 5 & 31) as usize, u64::from(opcode >> 10 & 0xFFF));
        let slot = (self.x[31] / 8 + immediate) as usize;
        let mut next = self.pc + 4;
        let mut taken = true;
        match opcode >> 24 {
            0xD2 => self.x[rd] = u64::from(opcode >> 5 & 0xFFFF),
            0xF1 => self.lower_or_same = self.x[rn] <= immediate,
            0xD1 => self.x[rd] = self.x[rn] - immediate,
            0x91 => self.x[rd] = self.x[rn] + immediate,
            0x8B => self.x[rd] = self.x[rn] + self.x[(opcode >> 16 & 31) as usize],
            0xF9 if opcode >> 22 & 1 == 0 => self.stack[slot] = self.x[rd],
            0xF9 => self.x[rd] = self.stack[slot],
            0x54 => {
                taken = self.lower_or_same;
                next = if taken { self.pc + u64::from(opcode >> 5 & 0x7FFFF) * 4 } else { next };
            }
            0x94..=0x97 => {
                self.x[30] = next;
                next = self.pc.wrapping_add_signed(i64::from((opcode << 6) as i32 >> 6) * 4);
            }
            0xD6 => next = self.x[30],
            _ => {}
        }
        self.cycle += 1 + u64::from(opcode >> 24 == 0xF9) * 2;
        let (address, next) = (Address(self.pc), Address(next));
        let retired = Retired { address, next, cycle: self.cycle, opcode, size: 4, isa: Isa::A64, taken };
        self.items.push(Execution::Instruction(retired));
        self.pc = next.0;
        if opcode == 0xD400_0001 {
            self.trap(TrapKind::Exception, 0x02);
        } else if self.items.len().is_multiple_of(150) {
            self.trap(TrapKind::Interrupt, 0x0E);
        }
    }

    /// The kernel is not traced.
    fn trap(&mut self, kind: TrapKind, cause: u32) {
        let (return_address, handler, cycle) = (Address(self.pc), Address(self.pc), self.cycle);
        self.items.push(Execution::Trap(Trap { kind, cause, value: 0, return_address, handler, cycle }));
        self.cycle += 400;
    }
}

fn execution() -> Vec<Execution> {
    let context = Context { context_id: Some(0x2A), ..Context::arm(0, Security::NonSecure, true) };
    let items = vec![Execution::Context(context)];
    let mut x = [0; 32];
    x[31] = 512;
    let mut machine = Machine { x, stack: [0; 64], pc: BASE, lower_or_same: false, cycle: 0, items };
    // Behind the second system call, which the program does not survive.
    while machine.pc != BASE + 24 || machine.x[8] != 93 {
        machine.step();
    }
    assert_eq!(machine.x[0], 55, "the tenth Fibonacci number");
    machine.items
}

#[test]
fn the_first_capture_is_what_the_unit_writes() {
    let items = execution();
    let mut config = Config::etm4_default();
    // Context IDs, timestamps, return stack.
    config.registers.configr = 0x1841;
    config.registers.traceidr = 0x10;
    let mut options = UnitConfig::new(config);
    options.controls.syncpr = 8;
    options.timestamps.first = 0x1_0000_0000;
    options.timestamps.period = 300;
    let mut system = System::new(options, FormatterConfig::new(Framing::Coresight)).expect("a system");
    let mut frames = Vec::new();
    let mut sink = |bytes: &[u8]| frames.extend_from_slice(bytes);
    items.iter().for_each(|&item| system.push(item, &mut sink).expect("one thread"));
    system.finish(&mut sink).expect("a good trace ID");

    let code = CODE.iter().flat_map(|opcode| opcode.to_le_bytes()).collect();
    let program = Program {
        flavour: Flavour::A64,
        segments: vec![(BASE, code)],
        functions: Vec::new(),
        handlers: Vec::new(),
    };
    let made = std::env::temp_dir().join(format!("backsight-{}-first", std::process::id()));
    std::fs::create_dir_all(&made).expect("temporary folder");
    snapshot::write(&made, &program, &[Source { config: &config, name: "ETM_0" }], &frames, true);

    let kept = repository().join("testdata/captures/first");
    for entry in std::fs::read_dir(&made).expect("temporary folder") {
        let made = entry.expect("a file").path();
        let kept = kept.join(made.file_name().expect("a name"));
        let contents = std::fs::read(&made).expect("temporary file");
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(kept.parent().expect("a folder")).expect("the folder of the capture");
            std::fs::write(&kept, &contents).expect("a file of the capture");
        }
        let same = std::fs::read(&kept).is_ok_and(|kept| kept == contents);
        assert!(same, "{} is not what the unit writes (BLESS=1 writes it)", kept.display());
    }
    std::fs::remove_dir_all(&made).expect("temporary folder");
    let listing: String = truth(&items).iter().map(|address| format!("{address}\n")).collect();
    assert_golden("testdata/captures/first.pcs", &listing);
}
