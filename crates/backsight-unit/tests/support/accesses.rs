//! Data accesses of random walks.

use backsight_core::{Access, Address, Execution};
use backsight_isa::{TransferKind, transfers};
use backsight_testing::Random;

/// Puts accesses after the instructions that have them.
pub fn with_accesses(items: &[Execution], random: &mut Random) -> Vec<Execution> {
    let mut all = Vec::new();
    for item in items {
        all.push(*item);
        let Execution::Instruction(retired) = item else { continue };
        let Some(found) = transfers(retired.isa, retired.opcode, retired.size).filter(|_| retired.taken)
        else {
            continue;
        };
        if matches!(found.kind, TransferKind::CoprocessorRead | TransferKind::CoprocessorWrite) {
            continue;
        }
        let base = random.next() & 0xFFFF_FFFC >> random.below(20);
        for index in 0..u64::from(found.count) {
            let is_swap = found.kind == TransferKind::Swap;
            let offset = if is_swap { 0 } else { index * u64::from(found.size) };
            let store = found.kind == TransferKind::Store || is_swap && index == 1;
            let bits = 8 * u32::from(found.size);
            all.push(Execution::Access(Access {
                address: Address((base + offset) & 0xFFFF_FFFF),
                value: random.next() & ((1 << bits) - 1) >> random.below(u64::from(bits)),
                size: found.size,
                store,
                known: true,
            }));
        }
    }
    all
}
