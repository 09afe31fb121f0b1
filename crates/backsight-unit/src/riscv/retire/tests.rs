use backsight_core::{Address, Execution, Isa, Retired, Trap, TrapKind};
use std::string::ToString;
use std::vec::Vec;

use super::*;
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress, Itype};

const NOP: u32 = 0x13;
const BEQ: u32 = 0x0000_0463;
const RET: u32 = 0x0000_8067;

fn at(address: u64, opcode: u32, taken: bool) -> Execution {
    let next = Address(address + 4);
    Execution::Instruction(Retired {
        address: Address(address),
        next,
        cycle: 0,
        opcode,
        size: 4,
        isa: Isa::Rv64,
        taken,
    })
}

fn code(opcodes: &[u32]) -> Vec<Execution> {
    (0u64..).zip(opcodes).map(|(n, &opcode)| at(0x1000 + 4 * n, opcode, opcode != BEQ)).collect()
}

/// Keeps what came in each cycle; every jump through a register costs a packet.
#[derive(Default)]
struct Groups {
    groups: Vec<Vec<Block>>,
    gaps: usize,
}

impl Consumer for Groups {
    fn group(&mut self, blocks: &[Block]) -> u64 {
        self.groups.push(blocks.to_vec());
        blocks.iter().filter(|block| block.itype.is_uninferable()).count() as u64
    }

    fn gap(&mut self) -> u64 {
        self.gaps += 1;
        1
    }
}

fn run(shape: &str, executed: &[Execution]) -> (Groups, Figures) {
    let mut pipeline = Pipeline::new(shape.parse().unwrap(), 4, Ctype::Unreported);
    let mut groups = Groups::default();
    executed.iter().for_each(|execution| pipeline.push(execution, &mut groups));
    pipeline.finish(&mut groups);
    pipeline.drain(1);
    (groups, pipeline.figures())
}

fn sizes(groups: &Groups) -> Vec<usize> {
    groups.groups.iter().map(Vec::len).collect()
}

#[test]
fn branches_share_a_cycle_and_only_the_last_may_be_another_discontinuity() {
    let executed = code(&[BEQ, BEQ, RET, RET, BEQ, RET, NOP, BEQ]);
    let (groups, figures) = run("branches:2/8", &executed);
    assert_eq!(sizes(&groups), [3, 1, 2, 1]);
    assert_eq!((figures.blocks, figures.held, figures.most_packets()), (7, 3, 1));
    let (groups, figures) = run("blocks:3/8", &executed);
    assert_eq!(sizes(&groups), [3, 3, 1]);
    // The plain instruction needs no block: it retires with the three before it.
    assert_eq!((figures.held, figures.most_blocks(), figures.most_packets()), (2, 3, 2));
}

#[test]
fn single_retirement_brings_one_block_a_cycle_and_one_packet() {
    let executed = code(&[BEQ, RET, NOP, RET]);
    let (groups, figures) = run("single", &executed);
    assert_eq!(sizes(&groups), [1, 1, 1]);
    assert_eq!((figures.commit_cycles, figures.held, figures.stalls), (4, 0, 0));
    assert_eq!((figures.packets, figures.by_packets[1], figures.most_packets()), (3, 3, 1));
    assert_eq!(figures.by_blocks.iter().sum::<u64>(), figures.cycles);
    assert_eq!(figures.by_packets.iter().sum::<u64>(), figures.cycles);
}

#[test]
fn a_serial_connector_holds_the_core_to_one_port_a_cycle() {
    let executed = code(&[NOP; 400]);
    let (_, parallel) = run("blocks:4", &executed);
    assert_eq!((parallel.commit_cycles, parallel.stalls), (101, 0));
    let (_, serial) = run("blocks:4+serial", &executed);
    assert_eq!(serial.commit_cycles, 101);
    assert!(serial.stalls > 200 && serial.cycles >= 400, "{serial:?}");
    // FIFOs even out what is short.
    assert_eq!(run("blocks:4+serial", &executed[..60]).1.stalls, 0);
}

#[test]
fn packets_that_cannot_leave_hold_the_encoder_back() {
    let executed = code(&[RET; 64]);
    let (_, figures) = run("blocks:4", &executed);
    assert_eq!((figures.waits, figures.most_packets(), figures.packets), (0, 4, 65));
    struct Costly(u64);
    impl Consumer for Costly {
        fn group(&mut self, blocks: &[Block]) -> u64 {
            self.0 * blocks.len() as u64
        }
        fn gap(&mut self) -> u64 {
            0
        }
    }
    let mut pipeline = Pipeline::new("branches:4".parse().unwrap(), 4, Ctype::Unreported);
    executed.iter().for_each(|execution| pipeline.push(execution, &mut Costly(2)));
    pipeline.finish(&mut Costly(2));
    pipeline.drain(0);
    let figures = pipeline.figures();
    assert!(figures.waits > 40 && figures.stalls > 0 && figures.most_waiting < 12, "{figures:?}");
    assert_eq!((figures.packets, figures.most_packets()), (128, 1));
}

#[test]
fn a_trap_has_a_cycle_of_its_own_and_gaps_stay_in_their_place() {
    let mut executed = code(&[NOP, BEQ, NOP]);
    let trap = |at| Trap {
        kind: TrapKind::Exception,
        cause: 2,
        value: 7,
        return_address: Address(at),
        handler: Address(0x2000),
        cycle: 0,
    };
    executed.push(Execution::Trap(trap(0x100C)));
    executed.push(Execution::Trap(trap(0x2000)));
    executed.push(Execution::Gap);
    executed.push(at(0x3000, NOP, true));
    let (groups, figures) = run("blocks:4", &executed);
    assert_eq!(sizes(&groups), [1, 1, 1, 1]);
    let traps: Vec<_> =
        groups.groups[1..3].iter().map(|group| (group[0].itype, group[0].iretire, group[0].end())).collect();
    assert_eq!(traps, [(Itype::Exception, 2, 0x100C), (Itype::Exception, 0, 0x2000)]);
    assert_eq!((groups.gaps, figures.blocks), (1, 4));
}

#[test]
fn the_blocks_are_those_of_the_builder_whatever_the_shape() {
    let mut random = backsight_testing::Random(5);
    let opcodes: Vec<u32> = (0..2000).map(|_| [NOP, NOP, BEQ, RET][random.below(4) as usize]).collect();
    let executed = code(&opcodes);
    let mut expected = Vec::new();
    let mut builder = Builder::new(4, Ctype::Unreported);
    let mut each = |ingress| match ingress {
        Ingress::Block(block) => expected.push(block),
        Ingress::Gap => panic!("there is none"),
    };
    executed.iter().for_each(|execution| builder.push(execution, &mut each));
    builder.finish(&mut each);
    for shape in ["single", "branches:1", "branches:3", "blocks:2", "blocks:5/7", "branches:2/4+serial"] {
        let groups = run(shape, &executed).0.groups;
        let all = groups.concat();
        // Where the hart reports no time, cycles are counted.
        assert!(all.is_sorted_by_key(|block| block.time) && all.last().unwrap().time > 200, "{shape}");
        let blocks: Vec<Block> = all.iter().map(|block| Block { cycles: 0, time: 0, ..*block }).collect();
        assert_eq!(blocks, expected, "{shape}");
        let retirement: Retirement = shape.parse().unwrap();
        let most = usize::from(retirement.architecture.most_blocks());
        assert!(groups.iter().all(|group| group.len() <= most), "{shape}");
    }
}

#[test]
fn shapes_are_written_as_they_are_read() {
    for shape in ["single", "branches:2", "blocks:16", "branches:1", "blocks:2/4", "branches:3/8+serial"] {
        assert_eq!(shape.parse::<Retirement>().unwrap().to_string(), shape);
    }
    for wrong in ["", "double", "blocks", "blocks:0", "blocks:17", "branches:2/0", "blocks:2+parallel"] {
        assert!(wrong.parse::<Retirement>().unwrap_err().contains("branches:N"), "{wrong}");
    }
}
