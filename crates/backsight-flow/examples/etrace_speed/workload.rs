//! What is encoded and decoded: programs of the reference flow, and programs run by the simulator.

use std::collections::HashMap;
use std::path::Path;

use backsight_core::{Address, AddressSpace, Context, Execution, Isa, Retired};
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::etrace::Params;
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress, csv};
use backsight_sim::{Options, Simulator, Streams};
use backsight_testing::gunzip;

use crate::program::Program;

/// Steps of execution, each distinct one kept once: what is measured shall not be how fast memory is read.
pub struct Steps<T> {
    table: Vec<T>,
    order: Vec<u32>,
}

impl<T: Copy> Steps<T> {
    /// Steps with the number that tells them apart.
    fn new(steps: impl Iterator<Item = (u64, bool, T)>) -> Self {
        let (mut table, mut order, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for (number, taken, step) in steps {
            let index = *known.entry((number, taken)).or_insert_with(|| {
                table.push(step);
                table.len() as u32 - 1
            });
            order.push(index);
        }
        Self { table, order }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.order.iter().map(|&index| &self.table[index as usize])
    }

    pub fn map<U>(&self, with: impl FnMut(&T) -> U) -> Steps<U> {
        Steps { table: self.table.iter().map(with).collect(), order: self.order.clone() }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }
}

pub struct Workload {
    pub code: Program,
    pub params: Params,
    level: u8,
    executions: Vec<Execution>,
}

impl Workload {
    /// A program of the reference flow: the list of its instructions.
    pub fn reference(root: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(root.join("itype4/hardware_64.scf")).expect("parameters");
        let (params, _) = Params::parse(&text).expect("parameters");
        let elf = root.join(format!("elf/{name}.riscv"));
        let code = Program::with_boot_rom(&elf, &root.join("elf/bootrom64.bin"));
        let ingress = gunzip(&root.join(format!("itype3/{name}.encoder_input.gz")));
        let singles = csv::parse(std::str::from_utf8(&ingress).expect("text")).expect("ingress");
        let next = singles.iter().skip(1).map(|single| single.iaddr).chain([0]);
        let executions = singles.iter().zip(next).map(|(single, next)| {
            let bytes = code.bytes_at(AddressSpace::ANY, Address(single.iaddr)).expect("code");
            Execution::Instruction(Retired {
                address: Address(single.iaddr),
                next: Address(next),
                cycle: 0,
                opcode: rv::opcode(bytes).expect("opcode"),
                size: (single.iretire * 2) as u8,
                isa: Isa::Rv64,
                taken: next != single.end(),
            })
        });
        let executions = executions.collect();
        Self { executions, code, params, level: 3 }
    }

    /// The first instructions of a program that the simulator runs.
    pub fn simulated(path: &Path, params: Params, instructions: u64) -> Self {
        let file = std::fs::read(path).expect("program");
        let options = Options { streams: Streams::none(), instructions, ..Options::default() };
        let mut simulator = Simulator::load(&file, options).expect("program");
        let mut executions = Vec::new();
        simulator.run(&mut |item| {
            if let Execution::Instruction(retired) = item {
                executions.push(Execution::Instruction(Retired { cycle: 0, ..retired }));
            }
        });
        Self { executions, code: Program::elf(path), params, level: 0 }
    }

    /// Executed instructions, with their opcodes.
    pub fn executed(&self) -> Steps<Execution> {
        Steps::new(self.executions.iter().filter_map(|item| match item {
            Execution::Instruction(retired) => {
                Some((retired.address.0 ^ retired.next.0.rotate_left(32), retired.taken, *item))
            }
            _ => None,
        }))
    }

    /// The instruction interface: one instruction at a time, or whole blocks.
    pub fn ingress(&self, longest: u32) -> Steps<Block> {
        let mut builder = Builder::new(4, Ctype::Unreported).longest_block(longest);
        let mut blocks = Vec::new();
        let mut sink = |ingress| {
            if let Ingress::Block(block) = ingress {
                blocks.push(block);
            }
        };
        builder.push(&self.context(), &mut sink);
        self.executions.iter().for_each(|item| builder.push(item, &mut sink));
        builder.finish(&mut sink);
        Steps::new(blocks.into_iter().map(|block| {
            let sign = block.itype as u64 | u64::from(block.sijump) << 4 | u64::from(block.iretire) << 5;
            (block.iaddr ^ sign << 40, false, block)
        }))
    }

    /// Where execution begins: its privilege.
    pub fn context(&self) -> Execution {
        Execution::Context(Context::riscv(self.level, true))
    }
}
