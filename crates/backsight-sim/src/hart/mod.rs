//! One hardware thread: its registers, and what instructions do to them.

pub mod atomic;
pub mod csr;
pub mod execute;
pub mod float;
pub mod run;

use crate::decode::NOWHERE;
use crate::float::Rounding;

/// The registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hart {
    /// Integer registers; those from 32 on catch what is written to x0. (256 so that no index needs a check.)
    x: [u64; 256],
    /// Floating-point registers; single precision is boxed in ones.
    f: [u64; 32],
    /// Address of the next instruction.
    pub pc: u64,
    /// Accrued exception flags.
    pub fflags: u8,
    /// Dynamic rounding mode, as written: it may be reserved.
    pub frm: u8,
    /// Address and width of the reservation that LR made.
    pub(crate) reservation: Option<(u64, u8)>,
    /// Instructions retired so far.
    pub retired: u64,
}

impl Default for Hart {
    fn default() -> Self {
        Self { x: [0; 256], f: [0; 32], pc: 0, fflags: 0, frm: 0, reservation: None, retired: 0 }
    }
}

impl Hart {
    /// Integer register `n`.
    #[inline(always)]
    pub fn x(&self, n: u8) -> u64 {
        self.x[usize::from(n)]
    }

    /// Writes integer register `n`; [`NOWHERE`] is one.
    #[inline(always)]
    pub fn set_x(&mut self, n: u8, value: u64) {
        self.x[usize::from(n)] = value;
    }

    /// Floating-point register `n`, as bits.
    #[inline(always)]
    pub fn f(&self, n: u8) -> u64 {
        self.f[usize::from(n & 31)]
    }

    /// Writes floating-point register `n`.
    #[inline(always)]
    pub fn set_f(&mut self, n: u8, value: u64) {
        self.f[usize::from(n & 31)] = value;
    }

    /// All integer registers.
    pub fn integers(&self) -> [u64; 32] {
        core::array::from_fn(|n| self.x[n])
    }

    /// All floating-point registers.
    pub fn floats(&self) -> &[u64; 32] {
        &self.f
    }

    /// The rounding mode of an instruction's `rm` field; `None` if it, or the dynamic mode it asks for, is
    /// reserved.
    fn rounding(&self, field: u32) -> Option<Rounding> {
        Rounding::from_bits(if field == 7 { u32::from(self.frm) } else { field })
    }
}

/// The destination in an opcode, as an integer register.
fn destination(opcode: u32) -> u8 {
    match (opcode >> 7 & 0x1F) as u8 {
        0 => NOWHERE,
        n => n,
    }
}
