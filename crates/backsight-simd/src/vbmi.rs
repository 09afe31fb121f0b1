//! Those of AVX-512 with VBMI.
//!
//! Processors that have VBMI extract bits in a few cycles; some older ones that could, too, take hundreds.

#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::bytes::{Bytes, Instructions, LANES};

/// Its functions are called from [`crate::run`] alone, where the processor has the instructions: the type is not public, and
/// a task gets to know it only there.
#[derive(Debug)]
pub(crate) struct Vbmi;

/// Bytes in a register. The same holds for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VbmiBytes(__m512i);

// SAFETY of all that follows: the processor has AVX-512 F, BW and VBMI, and BMI2 (see above); pointers are those of arrays of
// as many bytes as are read or written, and loads and stores ask for no alignment.
impl Instructions for Vbmi {
    const ARE_THERE: bool = true;

    type Bytes = VbmiBytes;

    #[inline(always)]
    fn extract(word: u64, mask: u64) -> u64 {
        unsafe { _pext_u64(word, mask) }
    }
}

impl Bytes for VbmiBytes {
    type Table = [__m512i; 4];

    #[inline(always)]
    fn load(bytes: &[u8; LANES]) -> Self {
        Self(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, to: &mut [u8; LANES]) {
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        Self(unsafe { _mm512_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    fn table(entries: &[u8; 256]) -> Self::Table {
        let (parts, _) = entries.as_chunks::<LANES>();
        core::array::from_fn(|part| Self::load(&parts[part]).0)
    }

    #[inline(always)]
    fn look_up(self, table: &Self::Table) -> Self {
        let [a, b, c, d] = *table;
        Self(unsafe {
            let low = _mm512_permutex2var_epi8(a, self.0, b);
            let high = _mm512_permutex2var_epi8(c, self.0, d);
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(self.0), low, high)
        })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(unsafe { _mm512_add_epi8(self.0, other.0) })
    }

    #[inline(always)]
    fn shifted_up(self) -> Self {
        Self(unsafe { _mm512_slli_epi16::<4>(_mm512_and_si512(self.0, _mm512_set1_epi8(0x0F))) })
    }

    #[inline(always)]
    fn shifted_down(self) -> Self {
        Self(unsafe { _mm512_and_si512(_mm512_srli_epi16::<4>(self.0), _mm512_set1_epi8(0x0F)) })
    }

    #[inline(always)]
    fn where_equal(self, other: Self, then: Self, otherwise: Self) -> Self {
        Self(unsafe { _mm512_mask_blend_epi8(_mm512_cmpeq_epi8_mask(self.0, other.0), otherwise.0, then.0) })
    }

    #[inline(always)]
    fn where_high(self, then: Self, otherwise: Self) -> Self {
        Self(unsafe { _mm512_mask_blend_epi8(_mm512_movepi8_mask(self.0), otherwise.0, then.0) })
    }

    #[inline(always)]
    fn following<const N: i32>(self, next: Self) -> Self {
        Self(unsafe {
            let later = _mm512_alignr_epi64::<2>(next.0, self.0);
            _mm512_alignr_epi8::<N>(later, self.0)
        })
    }
}
