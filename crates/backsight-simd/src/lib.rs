//! The same code, compiled for several sets of vector instructions; which of them runs is decided when it runs.
//!
//! Loops over arrays of bytes become vector instructions by themselves, if the compiler may use any. A program that
//! is to run on every processor is compiled for the oldest of them. [`run`] takes a [`Task`] and runs a copy of it that
//! was compiled for newer instructions, where the processor has these. All copies are made of the same source, and give
//! the same result. What no compiler makes by itself a task finds in [`Instructions`].
//!
//! This crate is the only one with `unsafe` code. Calling a function that was compiled for certain instructions is
//! unsafe, because a processor that lacks them does something undefined: so each call is next to the question whether
//! the processor has them. The instructions of `vbmi` are called by what was called so, and nowhere else; they read and
//! write arrays of the right size. [`prefetch`] needs an instruction that is unsafe by name only.
//!
//! # What is where
//!
//! The same code compiled for several sets of vector instructions, chosen when it runs, and what no compiler makes of a
//! loop by itself (`bytes`: tables of bytes, vectors that see their neighbours, bits put together; `vbmi`: the instructions
//! for it; `prefetch`: what is needed soon): the only crate with `unsafe` code, a call next to the question whether the
//! processor has the instructions. `no_std`.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

mod bytes;
#[cfg(target_arch = "x86_64")]
mod vbmi;

pub use bytes::{Bytes, Instructions, LANES, Plain};

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// What every processor of the architecture has: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    /// AVX2, with BMI1, BMI2 and LZCNT, on x86-64.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, on x86-64.
    Avx512,
    /// The same with VBMI, which looks bytes up in tables.
    Avx512Vbmi,
    /// NEON, on AArch64.
    Neon,
}

impl InstructionSet {
    /// All of them, the best ones first.
    pub const ALL: [Self; 5] = [Self::Avx512Vbmi, Self::Avx512, Self::Avx2, Self::Neon, Self::Baseline];

    /// The best that this processor has.
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|set| set.is_available()).unwrap_or(Self::Baseline)
    }

    /// Has this processor these instructions?
    pub fn is_available(self) -> bool {
        match self {
            Self::Baseline => true,
            Self::Avx2 => has_avx2(),
            Self::Avx512 => has_avx512(),
            Self::Avx512Vbmi => has_vbmi(),
            Self::Neon => cfg!(all(target_arch = "aarch64", target_feature = "neon")),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Vbmi => "avx512-vbmi",
            Self::Neon => "neon",
        }
    }
}

/// Has this processor all of these features, as far as can be known?
#[cfg(target_arch = "x86_64")]
macro_rules! has_all {
    ($($feature:tt),*) => {
        match () {
            #[cfg(feature = "std")]
            () => true $(&& std::is_x86_feature_detected!($feature))*,
            #[cfg(not(feature = "std"))]
            () => true $(&& cfg!(target_feature = $feature))*,
        }
    };
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    has_all!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2() && has_all!("avx512f", "avx512bw", "avx512dq", "avx512vl")
}

#[cfg(target_arch = "x86_64")]
fn has_vbmi() -> bool {
    has_avx512() && has_all!("avx512vbmi")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vbmi() -> bool {
    false
}

/// Something to do, in code that is worth compiling several times.
pub trait Task {
    /// What comes of it.
    type Output;

    /// Does it. What is not marked `#[inline(always)]`, here and in what is called, is compiled for every processor.
    fn run<I: Instructions>(self) -> Self::Output;
}

/// Does a task with these instructions, or without them if the processor lacks them.
#[inline]
#[allow(unsafe_code)]
pub fn run<T: Task>(set: InstructionSet, task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    match set {
        // SAFETY: the processor has just said that it has all the instructions that the function was compiled for.
        InstructionSet::Avx512Vbmi if has_vbmi() => return unsafe { run_with_vbmi(task) },
        // SAFETY: likewise.
        InstructionSet::Avx512 if has_avx512() => return unsafe { run_with_avx512(task) },
        // SAFETY: likewise.
        InstructionSet::Avx2 if has_avx2() => return unsafe { run_with_avx2(task) },
        _ => {}
    }
    // NEON is part of the baseline of AArch64.
    let _ = set;
    task.run::<Plain>()
}

/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// A value is needed soon: a processor that can be told so brings it closer.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(value)).step_by(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = (&raw const *value).cast::<i8>().wrapping_add(at);
        // SAFETY: every x86-64 has the instruction. It reads nothing that a program could notice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    let _ = (value, LINE);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512vbmi,avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_with_vbmi<T: Task>(task: T) -> T::Output {
    task.run::<vbmi::Vbmi>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_with_avx512<T: Task>(task: T) -> T::Output {
    task.run::<Plain>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_with_avx2<T: Task>(task: T) -> T::Output {
    task.run::<Plain>()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u8]);

    impl Task for Sum<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<I: Instructions>(self) -> u32 {
            self.0.iter().map(|&byte| u32::from(byte)).sum()
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_whether_the_processor_has_it_or_not() {
        let bytes: [u8; 300] = core::array::from_fn(|n| (n * 7) as u8);
        let expected = bytes.iter().fold(0, |sum, &byte| sum + u32::from(byte));
        for set in InstructionSet::ALL {
            assert_eq!(run(set, Sum(&bytes)), expected, "{}", set.name());
        }
    }

    /// All that is done with vectors, with a few inputs.
    struct Vectors<'a>(&'a [[u8; LANES]; 3], &'a [u8; 256]);

    impl Task for Vectors<'_> {
        type Output = [[u8; LANES]; 11];

        #[inline(always)]
        fn run<I: Instructions>(self) -> Self::Output {
            let [a, b, c] = self.0;
            let (a, b, c) = (I::Bytes::load(a), I::Bytes::load(b), I::Bytes::load(c));
            let results = [
                I::Bytes::splat(0xA5),
                a.look_up(&I::Bytes::table(self.1)),
                a.and(b),
                a.plus(b),
                a.shifted_up(),
                a.shifted_down(),
                a.where_equal(b, c, a),
                a.where_high(b, c),
                a.following::<1>(b),
                a.following::<7>(b),
                a.following::<15>(b),
            ];
            let mut all = [[0; LANES]; 11];
            for (result, to) in results.into_iter().zip(&mut all) {
                result.store(to);
            }
            all
        }
    }

    #[test]
    fn vectors_do_what_is_said_of_them() {
        let table: [u8; 256] = core::array::from_fn(|n| (n * 167 + 13) as u8);
        for seed in 0..200usize {
            let vector = |which: usize| -> [u8; LANES] {
                core::array::from_fn(|lane| {
                    (((lane + 3) * (seed * 3 + which + 1) * 2_654_435_761) >> 13) as u8
                })
            };
            let [a, mut b, c] = [vector(0), vector(1), vector(2)];
            // Some are to be equal.
            for (lane, byte) in b.iter_mut().enumerate().filter(|(lane, _)| lane % 5 == seed % 5) {
                *byte = a[lane];
            }
            let each = |what: &dyn Fn(usize) -> u8| -> [u8; LANES] { core::array::from_fn(what) };
            let later =
                |by: usize| each(&|lane| if lane + by < LANES { a[lane + by] } else { b[lane + by - LANES] });
            let expected = [
                [0xA5; LANES],
                each(&|lane| table[usize::from(a[lane])]),
                each(&|lane| a[lane] & b[lane]),
                each(&|lane| a[lane].wrapping_add(b[lane])),
                each(&|lane| a[lane] << 4),
                each(&|lane| a[lane] >> 4),
                each(&|lane| if a[lane] == b[lane] { c[lane] } else { a[lane] }),
                each(&|lane| if a[lane] >= 128 { b[lane] } else { c[lane] }),
                later(1),
                later(7),
                later(15),
            ];
            for set in InstructionSet::ALL {
                assert_eq!(run(set, Vectors(&[a, b, c], &table)), expected, "{}", set.name());
            }
        }
    }

    struct Extract(u64, u64);

    impl Task for Extract {
        type Output = u64;

        #[inline(always)]
        fn run<I: Instructions>(self) -> u64 {
            I::extract(self.0, self.1)
        }
    }

    #[test]
    fn bits_are_put_together_in_their_order() {
        let examples = [
            (0xFFFF_FFFF_FFFF_FFFF, 0, 0),
            (0x0123_4567_89AB_CDEF, u64::MAX, 0x0123_4567_89AB_CDEF),
            (0b1010_1100, 0b1111_0000, 0b1010),
            (0x8182_8384, 0x7F7F_7F7F, 1 << 21 | 2 << 14 | 3 << 7 | 4),
            (1 << 63 | 1, 1 << 63 | 1, 3),
        ];
        for (word, mask, bits) in examples {
            for set in InstructionSet::ALL {
                assert_eq!(run(set, Extract(word, mask)), bits, "{}", set.name());
            }
        }
    }

    #[test]
    fn the_best_one_is_available() {
        assert!(InstructionSet::best().is_available() && InstructionSet::Baseline.is_available());
        let x86 = cfg!(target_arch = "x86_64");
        assert!(x86 || !InstructionSet::Avx2.is_available() && !InstructionSet::Avx512.is_available());
    }
}
