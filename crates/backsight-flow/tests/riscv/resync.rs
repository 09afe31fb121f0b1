//! What a synchronisation resets.

use backsight_core::Located;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_riscv::etrace::{BranchMap, Options, Packet, Params, QualStatus, Reported, Start, Support};

use crate::program::Program;

/// `1000: nop; 1002: jr t1`, which always jumps back.
fn program() -> Program {
    Program(vec![(0x1000, vec![0x01, 0x00, 0x02, 0x83])])
}

fn start(address: u64) -> Packet {
    Packet::Start(Start { branch: true, address: address >> 1, ..Start::default() })
}

/// Jumps once with an address, which enters the jump target cache; `between`; jumps again with an entry of the cache.
fn faults(options: Options, between: &[Packet]) -> u64 {
    let jump = Packet::address(Reported { updiscon: true, ..Reported::default() });
    let again = Packet::JumpTarget { index: 0, map: BranchMap::EMPTY, irreport: None };
    let params = Params { cache_size: 2, ..Params::default() };
    let program = program();
    let mut follower = Follower::new(Settings::new(params, options), &program);
    for value in [&[start(0x1000), jump], between, &[again]].concat() {
        follower.push(Located { offset: 0, length: 1, value }, &mut |_| {});
    }
    assert_eq!(follower.faults().of(Fault::CacheEntryInvalid), follower.faults().total());
    follower.faults().total()
}

#[test]
fn tables_are_forgotten_at_each_synchronisation_unless_that_is_disabled() {
    let options = Options { jump_target_cache: true, ..Options::default() };
    let kept = Options { resync_disabled: true, ..options };
    let ended = |options| {
        Packet::Support(Support { qual_status: QualStatus::EndedRep, options, ..Support::default() })
    };
    assert_eq!((faults(options, &[]), faults(kept, &[])), (0, 0));
    let resync = [start(0x1002)];
    assert_eq!((faults(options, &resync), faults(kept, &resync)), (1, 0));
    // At the start of a trace the encoder's tables are empty in any case.
    let again = |options| [ended(options), start(0x1002)];
    assert_eq!((faults(options, &again(options)), faults(kept, &again(kept))), (1, 1));
}
