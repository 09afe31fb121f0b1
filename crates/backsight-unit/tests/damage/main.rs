//! Damaged streams of every protocol: what was decoded before the damage stays, and from the first synchronisation after
//! it everything is as if nothing had happened.
//!
//! Programs whose every instruction is known are traced; then bits are turned, bytes are changed, lost or added. The quick
//! tests take about two thousand streams; `tests/damage/run` takes more than twenty thousand.

mod compare;
mod etm;
mod etm4;
mod etrace;
mod harm;
mod messages;
mod ntrace;
#[path = "../../../backsight-flow/tests/riscv/program.rs"]
#[allow(dead_code, reason = "programs from files are for other tests")]
mod program;
#[path = "../../../backsight-flow/tests/riscv/random.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod random;
#[path = "../support/mod.rs"]
mod support;

use backsight_testing::Random;

use self::compare::{Subject, check};
use self::harm::Harm;

/// Damaged streams of each trace.
const EACH: u64 = 8;

/// What became of the damaged streams of one protocol.
#[derive(Debug, Default)]
struct Counts {
    streams: u64,
    /// Events before the damage, and from the first synchronisation after it, that were compared.
    before: u64,
    after: u64,
    /// Streams without a synchronisation after the damage.
    unsynchronised: u64,
    wrong: Vec<String>,
}

fn sweep(name: &str, traces: u64, subject: impl Fn(u64) -> Option<Box<dyn Subject>>) {
    let mut counts = Counts::default();
    for seed in 0..traces {
        let Some(subject) = subject(seed) else { continue };
        let mut random = Random(seed ^ 0xDA3A);
        let intact = subject.decode(subject.bytes());
        for number in 0..EACH {
            let harm = Harm::new(&mut random, &*subject, &intact);
            counts.streams += 1;
            match check(&*subject, &intact, &harm) {
                Ok(compared) => {
                    counts.before += compared.before;
                    counts.after += compared.after.unwrap_or(0);
                    counts.unsynchronised += u64::from(compared.after.is_none());
                }
                Err(why) => {
                    let what = format!("{name} {seed}.{number}, {}: {harm:x?}: {why}", subject.name());
                    counts.wrong.push(what);
                }
            }
        }
    }
    let Counts { streams, before, after, unsynchronised, wrong } = counts;
    println!(
        "{name}: {streams} damaged streams, {} of them wrong; {before} events compared before the damage, {after} after \
         the first synchronisation; {unsynchronised} streams had no synchronisation after the damage",
        wrong.len(),
    );
    assert!(unsynchronised * 4 < streams, "most streams have a synchronisation after the damage");
    assert!(wrong.is_empty(), "{} of {streams}:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}

#[test]
fn etm4_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("ETMv4 and ETE", 45, etm4::subject);
}

#[test]
fn ptm_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("PTM", 45, etm::ptm_subject);
}

#[test]
fn etm3_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("ETMv3", 45, etm::etm3_subject);
}

#[test]
fn itm_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("ITM", 45, messages::itm_subject);
}

#[test]
fn stm_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("STM", 45, messages::stm_subject);
}

#[test]
fn etrace_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("E-Trace", 45, etrace::subject);
}

#[test]
fn ntrace_is_the_same_before_damage_and_from_the_first_synchronisation_after_it() {
    sweep("N-Trace", 45, ntrace::subject);
}

#[test]
#[ignore = "longer: tests/damage/run"]
fn twenty_thousand_damaged_streams_are_the_same_before_and_after() {
    sweep("ETMv4 and ETE", 420, |seed| etm4::subject(seed + 1000));
    sweep("PTM", 420, |seed| etm::ptm_subject(seed + 1000));
    sweep("ETMv3", 420, |seed| etm::etm3_subject(seed + 1000));
    sweep("ITM", 420, |seed| messages::itm_subject(seed + 1000));
    sweep("STM", 420, |seed| messages::stm_subject(seed + 1000));
    sweep("E-Trace", 420, |seed| etrace::subject(seed + 1000));
    sweep("N-Trace", 420, |seed| ntrace::subject(seed + 1000));
}
