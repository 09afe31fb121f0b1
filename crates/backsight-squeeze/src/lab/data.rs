//! Data addresses and load values of one run, by every scheme at once.

use super::super::data::adac::Adac;
use super::super::data::addresses::{AddressCompressor, Addresses, Packing};
use super::super::data::entropy::{Entropy, EntropyFigures, signed_bits};
use super::super::data::values::{ValueCache, ValueCompressor};
use super::published;
use backsight_core::{Access, Execution, Retired};

/// The ways to compress addresses, and their names.
pub const ADDRESSES: [(&str, Addresses); 6] = [
    ("filtering", addresses(true, Packing::Plain)),
    ("nexus", addresses(false, Packing::Nexus)),
    ("adac 16x4", addresses(false, Packing::Adac(Adac::adaptive(16)))),
    ("adac 128x4", addresses(false, Packing::Adac(Adac::adaptive(128)))),
    ("dac 128x4, 8 bits", addresses(false, Packing::Adac(Adac::fixed(128, 8)))),
    ("filtering, adac 128x4", addresses(true, Packing::Adac(Adac::adaptive(128)))),
];

const fn addresses(filtered: bool, packing: Packing) -> Addresses {
    Addresses { filtered, packing, address_bits: 64 }
}

/// Low bits that are not counted in entropies of the largest block.
pub const MASKS: [u32; 4] = [0, 4, 8, 12];
/// Sizes that small values are counted for.
pub const SMALL: [u32; 9] = [4, 5, 6, 7, 8, 9, 10, 11, 12];

/// What was found of a run.
#[derive(Clone, Debug, Default)]
pub struct DataOutcome {
    /// Instructions.
    pub instructions: u64,
    /// Instructions that refer to memory.
    pub references: u64,
    /// Those whose address the debugger works out itself.
    pub filtered: u64,
    /// Bits of the addresses, for each of [`ADDRESSES`].
    pub address_bits: Vec<u64>,
    /// Loads, and the bits of their values.
    pub loads: u64,
    /// The bits of all load values.
    pub raw_bits: u64,
    /// For each cache of [`published::FIRST_ACCESS`]: loads left out and bits, with flags, then with a dedicated cache.
    pub values: Vec<[(u64, u64); 2]>,
    /// For each block size of [`published::ENTROPY`].
    pub entropies: Vec<Option<EntropyFigures>>,
    /// For each of [`MASKS`], in the largest blocks.
    pub masked: Vec<Option<EntropyFigures>>,
    /// Loads whose value fits each of [`SMALL`].
    pub small: [u64; 9],
}

/// Measures a run.
pub struct DataBench {
    outcome: DataOutcome,
    addresses: Vec<AddressCompressor>,
    values: Vec<[ValueCompressor; 2]>,
    entropies: Vec<Entropy>,
    masked: Vec<Entropy>,
    /// The instruction whose accesses are to come.
    current: Option<(Retired, Option<u64>)>,
}

impl DataBench {
    /// Nothing measured.
    pub fn new() -> Self {
        let caches = published::FIRST_ACCESS.iter().map(|&(size, ..)| {
            [ValueCache::first_access(size << 10), ValueCache::dedicated(size << 10)]
                .map(ValueCompressor::new)
        });
        let largest = published::ENTROPY[3].0 as usize;
        Self {
            outcome: DataOutcome::default(),
            addresses: ADDRESSES.iter().map(|(_, build)| AddressCompressor::new(*build)).collect(),
            values: caches.collect(),
            entropies: published::ENTROPY.iter().map(|row| Entropy::new(row.0 as usize, 0)).collect(),
            masked: MASKS.iter().map(|&mask| Entropy::new(largest, mask)).collect(),
            current: None,
        }
    }

    /// Takes an item of the run.
    pub fn push(&mut self, item: &Execution) {
        match item {
            Execution::Instruction(retired) => {
                self.end();
                self.outcome.instructions += 1;
                self.current = Some((*retired, None));
            }
            Execution::Access(access) => {
                if let Some((_, address)) = &mut self.current {
                    *address = Some(access.address.0);
                }
                self.access(access);
            }
            _ => {
                self.end();
                self.addresses.iter_mut().for_each(AddressCompressor::forget);
            }
        }
    }

    fn end(&mut self) {
        if let Some((retired, address)) = self.current.take() {
            self.addresses.iter_mut().for_each(|compressor| compressor.push(&retired, address));
        }
    }

    fn access(&mut self, access: &Access) {
        let Access { address, size, value, store, .. } = *access;
        for compressor in self.values.iter_mut().flatten() {
            if store {
                compressor.store(address.0, size, value);
            } else {
                compressor.load(address.0, size, value);
            }
        }
        if !store {
            // Values of more than 32 bits are two.
            for word in 0..u32::from(size).div_ceil(4) {
                let value = (value >> (32 * word)) as u32;
                self.entropies.iter_mut().chain(&mut self.masked).for_each(|entropy| entropy.push(value));
            }
            let bits = if size == 8 && value as i64 != i64::from(value as i32) {
                64
            } else {
                signed_bits(value as i32)
            };
            for (count, &size) in self.outcome.small.iter_mut().zip(&SMALL) {
                *count += u64::from(bits <= size);
            }
        }
    }

    /// What was found.
    pub fn finish(mut self) -> DataOutcome {
        self.end();
        let filter = &self.addresses[0];
        DataOutcome {
            references: filter.references,
            filtered: filter.filtered,
            address_bits: self.addresses.iter().map(AddressCompressor::bits).collect(),
            loads: self.values[0][0].loads,
            raw_bits: self.values[0][0].raw_bits,
            values: self.values.iter().map(|pair| [0, 1].map(|n| (pair[n].known, pair[n].bits()))).collect(),
            entropies: self.entropies.into_iter().map(Entropy::finish).collect(),
            masked: self.masked.into_iter().map(Entropy::finish).collect(),
            ..self.outcome
        }
    }
}

impl Default for DataBench {
    fn default() -> Self {
        Self::new()
    }
}
