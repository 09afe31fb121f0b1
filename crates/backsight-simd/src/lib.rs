//! The same code, compiled for several sets of vector instructions; which of them runs is decided when it runs.
//!
//! Loops over arrays of bytes become vector instructions by themselves, if the compiler may use any. A program that
//! is to run on every processor is compiled for the oldest of them. [`run`] takes a [`Task`] and runs a copy of it that
//! was compiled for newer instructions, where the processor has these. All copies are made of the same source, and give
//! the same result.
//!
//! This crate is the only one with `unsafe` code. Calling a function that was compiled for certain instructions is
//! unsafe, because a processor that lacks them does something undefined: so each call is next to the question whether
//! the processor has them. Nothing else here is unsafe, and no memory is touched in an unsafe way.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// What every processor of the architecture has: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    /// AVX2, with BMI1, BMI2 and LZCNT, on x86-64.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, on x86-64.
    Avx512,
    /// NEON, on AArch64.
    Neon,
}

impl InstructionSet {
    /// All of them, the best ones first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Baseline];

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
            Self::Neon => cfg!(all(target_arch = "aarch64", target_feature = "neon")),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
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

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

/// Something to do, in code that is worth compiling several times.
pub trait Task {
    /// What comes of it.
    type Output;

    /// Does it. What is not marked `#[inline(always)]`, here and in what is called, is compiled for every processor.
    fn run(self) -> Self::Output;
}

/// Does a task with these instructions, or without them if the processor lacks them.
#[inline]
#[allow(unsafe_code)]
pub fn run<T: Task>(set: InstructionSet, task: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    match set {
        // SAFETY: the processor has just said that it has all the instructions that the function was compiled for.
        InstructionSet::Avx512 if has_avx512() => return unsafe { run_with_avx512(task) },
        // SAFETY: likewise.
        InstructionSet::Avx2 if has_avx2() => return unsafe { run_with_avx2(task) },
        _ => {}
    }
    // NEON is part of the baseline of AArch64.
    let _ = set;
    task.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_with_avx512<T: Task>(task: T) -> T::Output {
    task.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_with_avx2<T: Task>(task: T) -> T::Output {
    task.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u8]);

    impl Task for Sum<'_> {
        type Output = u32;

        #[inline(always)]
        fn run(self) -> u32 {
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

    #[test]
    fn the_best_one_is_available() {
        assert!(InstructionSet::best().is_available() && InstructionSet::Baseline.is_available());
        let x86 = cfg!(target_arch = "x86_64");
        assert!(x86 || !InstructionSet::Avx2.is_available() && !InstructionSet::Avx512.is_available());
    }
}
