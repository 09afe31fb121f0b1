//! Damaged packets: counted, recovered from at the next synchronisation, never a panic.

use backsight_core::Located;
use backsight_flow::Event;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_riscv::etrace::{self, ImplicitReturn, Options, Packet, Params, PayloadDecoder};
use backsight_riscv::ingress::{Builder, Ctype, Ingress};
use backsight_testing::Random;
use backsight_unit::etrace::{Settings as TracerSettings, Tracer};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::random::{Code, Wildness, execute};

fn settings() -> (Params, Options) {
    let params = Params {
        iaddress_width: 64,
        bpred_size: 3,
        cache_size: 3,
        f0s_width: 1,
        return_stack_size: 2,
        implicit_return: ImplicitReturn::Returns,
        ..Params::default()
    };
    let options = Options {
        implicit_return: true,
        jump_target_cache: true,
        branch_prediction: true,
        sijump: true,
        ..Options::default()
    };
    (params, options)
}

fn payloads(code: &Code, random: &mut Random) -> Vec<Vec<u8>> {
    let (params, options) = settings();
    let resync = Resync { mode: ResyncMode::Packets, limit: 16 };
    let mut encoder = Tracer::new(params, options, TracerSettings { resync, ..Default::default() }).unwrap();
    let (mut builder, mut payloads) = (Builder::new(4, Ctype::Precise), Vec::new());
    let mut sink = |packet: Packet| payloads.push(etrace::encode(&packet, &params, &options).to_vec());
    let mut ingress = |ingress: Ingress| {
        if let Ingress::Block(block) = ingress {
            encoder.push(&block, &mut sink);
        }
    };
    let wild = Wildness { returns: true, traps: 10, contexts: 0, taken: 60 };
    for item in execute(code, random, 1000, wild) {
        builder.push(&item, &mut ingress);
    }
    builder.finish(&mut ingress);
    encoder.finish(&mut sink);
    payloads
}

/// Takes away, cuts and changes payloads.
pub fn damage(payloads: &mut Vec<Vec<u8>>, random: &mut Random) {
    for _ in 0..3 {
        let victim = random.below(payloads.len() as u64) as usize;
        match random.below(3) {
            0 => drop(payloads.remove(victim)),
            1 => payloads[victim].truncate(1),
            _ => {
                let bit = random.below(payloads[victim].len() as u64 * 8) as usize;
                payloads[victim][bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}

#[test]
fn damage_is_counted_and_recovered_from() {
    let (params, options) = settings();
    let (mut lost, mut found) = (0, 0);
    for seed in 0..300 {
        let mut random = Random(seed);
        let code = Code::new(&mut random, 60);
        let mut payloads = payloads(&code, &mut random);
        damage(&mut payloads, &mut random);
        let mut settings = Settings::new(params, options);
        settings.longest_path = 1 << 12;
        let mut follower = Follower::new(settings, &code.program);
        let mut decoder = PayloadDecoder::new(params, options);
        let mut sink = |event: Located<Event>| {
            lost += u64::from(matches!(event.value, Event::NoSync(_)));
            found += u64::from(matches!(event.value, Event::TraceOn(_)));
        };
        for (offset, payload) in (0..).zip(&payloads) {
            follower.push(Located { offset, length: 1, value: decoder.decode(payload) }, &mut sink);
        }
        follower.finish(&mut sink);
        let counted: u64 = Fault::ALL.iter().map(|&fault| follower.faults().of(fault)).sum();
        assert_eq!(counted, follower.faults().total());
    }
    assert!(lost > 500, "{lost}: damage shows");
    assert!(found > 500, "{found}: tracing begins again");
}

/// Follows a trace of one program with settings and code that may be others: faults, and how often tracing began.
fn follow(settings: Settings, code: &Code, payloads: &[Vec<u8>]) -> (u64, u64) {
    let settings = Settings { longest_path: 1 << 12, ..settings };
    let mut decoder = PayloadDecoder::new(settings.params, settings.options);
    let (mut follower, mut begun) = (Follower::new(settings, &code.program), 0);
    let mut sink = |event: Located<Event>| begun += u64::from(matches!(event.value, Event::TraceOn(_)));
    for (offset, payload) in (0..).zip(payloads) {
        follower.push(Located { offset, length: 1, value: decoder.decode(payload) }, &mut sink);
    }
    follower.finish(&mut sink);
    (follower.faults().total(), begun)
}

#[test]
fn wrong_code_and_wrong_parameters_show_again_and_again() {
    let (params, options) = settings();
    let right = Settings::new(params, options);
    let wrong = [
        Params { iaddress_width: 32, ..params },
        Params { iaddress_lsb: 2, ..params },
        Params { notime: 0, time_width: 16, ..params },
        Params { f0s_width: 0, ..params },
        Params { implicit_return: ImplicitReturn::Depth, ..params },
    ];
    let mut sums = [0; 5];
    for seed in 0..40 {
        let mut random = Random(seed);
        let code = Code::new(&mut random, 60);
        let payloads = payloads(&code, &mut random);
        assert_eq!(follow(right.clone(), &code, &payloads), (0, 1), "seed {seed}");
        let other = Code::new(&mut random, 60);
        let (faults, begun) = follow(right.clone(), &other, &payloads);
        assert!(faults > 10 && begun > 3, "seed {seed}: {faults} faults, begun {begun} times");
        for (params, sum) in wrong.iter().zip(&mut sums) {
            *sum += follow(Settings { params: *params, ..right.clone() }, &code, &payloads).0;
        }
    }
    // A trace may be too short to show one of them.
    assert!(sums.iter().all(|&sum| sum > 400), "{sums:?}");
}
