//! However many instructions retire in a cycle, the packets are those of single retirement, and what they tell is what
//! was executed.

use backsight_core::{Address, Execution, Located};
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::etrace::{self, ImplicitReturn, Options, Packet, Params, Payload};
use backsight_riscv::ingress::{Builder, Ctype, Ingress};

use backsight_testing::Random;
use backsight_unit::etrace::{Settings as TracerSettings, Tracer};
use backsight_unit::riscv::retire::{InOrder, Pipeline, Retirement};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::random::{Code, Wildness, execute};
use crate::reference::addresses;

struct Case {
    params: Params,
    options: Options,
    settings: TracerSettings,
}

impl Case {
    fn new(random: &mut Random) -> Self {
        let params = Params {
            iaddress_width: 64,
            itype_width: 3 + random.below(2) as u8,
            ecause_width: 5,
            bpred_size: 4,
            cache_size: 3,
            f0s_width: 1,
            return_stack_size: 3,
            implicit_return: ImplicitReturn::Returns,
            nocontext: 0,
            context_width: 20,
            ..Params::default()
        };
        let mut coin = || random.below(2) == 0;
        let options = Options {
            implicit_return: params.itype_width == 4 && coin(),
            branch_prediction: coin(),
            jump_target_cache: coin(),
            sijump: coin(),
            ..Options::default()
        };
        // Cycles differ with the shape; packets and half-words do not.
        let mode = [ResyncMode::Off, ResyncMode::Packets, ResyncMode::HalfWords][random.below(3) as usize];
        let resync = Resync { mode, limit: [3, 16, 60][random.below(3) as usize] };
        Self { params, options, settings: TracerSettings { resync, ..TracerSettings::default() } }
    }

    fn encoder(&self) -> Tracer {
        Tracer::new(self.params, self.options, self.settings).unwrap()
    }

    fn one_by_one(&self, executed: &[Execution]) -> Vec<Packet> {
        let (mut encoder, mut packets) = (self.encoder(), Vec::new());
        let mut builder = Builder::new(self.params.itype_width, Ctype::Precise);
        let mut take = |ingress: Ingress| match ingress {
            Ingress::Block(block) => encoder.push(&block, &mut |packet| packets.push(packet)),
            Ingress::Gap => encoder.unqualified(&mut |packet| packets.push(packet)),
        };
        executed.iter().for_each(|execution| builder.push(execution, &mut take));
        builder.finish(&mut take);
        encoder.finish(&mut |packet| packets.push(packet));
        packets
    }

    fn in_cycles(&self, executed: &[Execution], shape: Retirement) -> Vec<Packet> {
        let (mut encoder, mut packets) = (self.encoder(), Vec::new());
        let mut pipeline = Pipeline::new(shape, self.params.itype_width, Ctype::Precise);
        let mut consumer = InOrder(&mut encoder, |packet| packets.push(packet));
        executed.iter().for_each(|execution| pipeline.push(execution, &mut consumer));
        pipeline.finish(&mut consumer);
        let before = packets.len();
        encoder.finish(&mut |packet| packets.push(packet));
        pipeline.drain((packets.len() - before) as u64);
        let figures = pipeline.figures();
        assert_eq!(figures.packets, packets.len() as u64, "{shape}");
        let by_packets = figures.by_packets.iter().enumerate();
        assert_eq!(by_packets.map(|(n, cycles)| n as u64 * cycles).sum::<u64>(), figures.packets);
        assert!(figures.most_blocks() <= usize::from(shape.architecture.most_blocks()), "{shape}");
        assert!(figures.most_packets() <= usize::from(shape.architecture.most_packets()), "{shape}");
        packets
    }

    /// What travels: time, which is that of a cycle, does not.
    fn payloads(&self, packets: &[Packet]) -> Vec<Payload> {
        packets.iter().map(|packet| etrace::encode(packet, &self.params, &self.options)).collect()
    }

    fn told(&self, code: &Code, packets: &[Packet]) -> Vec<u64> {
        let mut follower = Follower::new(Settings::new(self.params, self.options), &code.program);
        let mut told = Vec::new();
        let mut sink = |event: Located<_>| told.extend(addresses(&code.program, &[event.value]));
        for &value in packets {
            follower.push(Located { offset: 0, length: 1, value }, &mut sink);
        }
        follower.finish(&mut sink);
        assert_eq!(follower.faults().total(), 0);
        told
    }
}

#[test]
fn the_shape_of_retirement_does_not_show_in_the_trace() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let case = Case::new(&mut random);
        let code = Code::new(&mut random, 60);
        let wild = Wildness {
            returns: random.below(2) == 0,
            traps: [0, 10, 80][random.below(3) as usize],
            contexts: [0, 10][random.below(2) as usize],
            taken: [10, 50, 90][random.below(3) as usize],
        };
        let mut executed = execute(&code, &mut random, 400, wild);
        if random.below(3) == 0 {
            executed.insert(200, Execution::Gap);
        }
        let expected = case.one_by_one(&executed);
        for shape in [
            "single",
            "branches:1",
            "branches:3",
            "blocks:2",
            "blocks:8",
            "branches:2/5",
            "blocks:2/4+serial",
        ] {
            let packets = case.in_cycles(&executed, shape.parse().unwrap());
            assert!(case.payloads(&packets) == case.payloads(&expected), "seed {seed}, {shape}");
        }
        let retired: Vec<u64> = executed
            .iter()
            .filter_map(|execution| match execution {
                Execution::Instruction(retired) => Some(retired.address),
                _ => None,
            })
            .map(|Address(address)| address)
            .collect();
        assert!(case.told(&code, &expected) == retired, "seed {seed}");
    }
}
