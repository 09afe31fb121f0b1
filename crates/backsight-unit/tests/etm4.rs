//! What the unit writes, decoded, is what was executed.

mod support;

use backsight_core::Execution;
use support::{Flavour, Program, Walk, Walker};

#[test]
fn smoke() {
    for flavour in [Flavour::A64, Flavour::AArch32] {
        let program = Program::random(1, flavour, false);
        let items = Walker::run(&program, Walk::default());
        let mut unit = backsight_unit::etm4::Unit::new(Default::default()).unwrap();
        let mut packets = Vec::new();
        for item in items.iter().take(300) {
            let from = packets.len();
            unit.push_packets(*item, &mut |packet| packets.push(packet));
            match item {
                Execution::Instruction(r) => println!("{} {:08x} -> {} {} {}", r.address, r.opcode, r.next, r.isa, r.taken),
                other => println!("{other:x?}"),
            }
            for p in &packets[from..] { println!("      {p:x?}"); }
        }
    }
}
