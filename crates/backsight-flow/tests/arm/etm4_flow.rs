//! Branches, returns, exceptions, contexts: small scenes with the code that ran.

use crate::scene::*;
use backsight_arm::etm4::Context;
use backsight_arm::etm4::{Is, Packet, Q};

const END: &str = "end of trace";

#[test]
fn atoms_follow_direct_branches() {
    let code = words(&[NOP, cbz(2), NOP, b(-3)]);
    assert_eq!(
        follow(&etm4(&[]), &code, &[atoms("EENE")]),
        [
            "0x1000-0x1008 2 instructions A64 branch",
            "0x100c-0x1010 1 instructions A64 branch",
            "0x1000-0x1008 2 instructions A64 not taken",
            "0x1008-0x1010 2 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn an_indirect_branch_waits_for_its_address() {
    let code = words(&[BR, NOP, RET]);
    let lines = follow(&etm4(&[]), &code, &[atoms("E"), address(0x1004), atoms("E")]);
    assert_eq!(
        lines,
        ["0x1000-0x1004 1 instructions A64 indirect branch", "0x1004-0x100c 2 instructions A64 return", END]
    );
}

#[test]
fn without_an_address_or_a_return_stack_the_target_is_missing() {
    let code = words(&[BR, NOP, RET]);
    let packets = [atoms("EEE"), atoms("E"), address(0x1004), atoms("E")];
    assert_eq!(
        follow(&etm4(&[]), &code, &packets),
        [
            "0x1000-0x1004 1 instructions A64 indirect branch",
            "image does not fit at 0x1000: the target of an indirect branch is missing",
            "0x1004-0x100c 2 instructions A64 return",
            END
        ]
    );
}

/// 0x1000 bl 0x100c; 0x1004 bl 0x100c; 0x1008 nop; 0x100c ret
const CALLS: &[u32] = &[bl(3), bl(2), NOP, RET];

#[test]
fn returns_take_their_target_from_the_return_stack() {
    assert_eq!(
        follow(&with_return_stack(), &words(CALLS), &[atoms("EEEE"), atoms("E")]),
        [
            "0x1000-0x1004 1 instructions A64 call",
            "0x100c-0x1010 1 instructions A64 return",
            "0x1004-0x1008 1 instructions A64 call",
            "0x100c-0x1010 1 instructions A64 return",
            "0x1008-0x1010 2 instructions A64 return",
            END
        ]
    );
}

#[test]
fn an_address_leaves_the_return_stack_as_it_is() {
    let packets = [atoms("EE"), address(0x1004), atoms("EE"), atoms("E"), atoms("E")];
    let lines = follow(&with_return_stack(), &words(CALLS), &packets);
    // Calls at 0x1000 and 0x1004 were pushed, and only the second return pops.
    assert_eq!(lines[4], "0x1008-0x1010 2 instructions A64 return");
    assert_eq!(lines[5], "0x1004-0x1008 1 instructions A64 call");
}

#[test]
fn an_empty_return_stack_is_reported_once() {
    let packets = [atoms("E"), address(0x100c), atoms("EEEE"), address(0x1000), atoms("E")];
    let lines = follow(&with_return_stack(), &words(CALLS), &packets);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions A64 call",
            "0x100c-0x1010 1 instructions A64 return",
            "0x1004-0x1008 1 instructions A64 call",
            "0x100c-0x1010 1 instructions A64 return",
            "0x1008-0x1010 2 instructions A64 return",
            "0x1000-0x1004 1 instructions A64 call",
            END
        ]
    );
    let lines = follow(&with_return_stack(), &words(CALLS), &[address(0x100c), atoms("EEE")]);
    assert_eq!(
        lines[0],
        "image does not fit at 0x1000: the trace names another address than the code leads to"
    );
    assert_eq!(lines[2], "image does not fit at 0x100c: a return found the return stack empty");
    assert_eq!(lines[3], END);
}

#[test]
fn a_periodic_trace_info_keeps_the_stack_but_holds_calls_back() {
    let code = words(&[bl(4), NOP, NOP, RET, bl(-1), RET]);
    // 0x1000 calls 0x1010, which calls 0x100c behind a Trace Info: only the first call is on the stack.
    let packets = [atoms("E"), trace_info(), atoms("EE"), atoms("E")];
    assert_eq!(
        follow(&with_return_stack(), &code, &packets),
        [
            "0x1000-0x1004 1 instructions A64 call",
            "0x1010-0x1014 1 instructions A64 call",
            "0x100c-0x1010 1 instructions A64 return",
            "0x1004-0x1010 3 instructions A64 return",
            END
        ]
    );
}

#[test]
fn trace_on_empties_the_return_stack() {
    let packets = [atoms("E"), Packet::TraceOn, context(), address(0x100c), atoms("EE")];
    let lines = follow(&with_return_stack(), &words(CALLS), &packets);
    assert_eq!(lines[1..3], ["trace on: begin or filter", "context: A64 EL1 Non-secure"]);
    assert_eq!(lines[4], "image does not fit at 0x100c: a return found the return stack empty");
}

#[test]
fn atoms_right_behind_trace_on_wait_for_an_address() {
    let packets = [atoms("E"), Packet::TraceOn, atoms("EE"), address(0x100c), atoms("E")];
    let lines = follow(&etm4(&[]), &words(CALLS), &packets);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions A64 call",
            "trace on: begin or filter",
            "0x100c-0x1010 1 instructions A64 return",
            END
        ]
    );
}

#[test]
fn an_exception_has_run_up_to_its_return_address() {
    let code = words(&[NOP, SVC, NOP, b(-3)]);
    let packets = [exception(2), address(0x1008), address(0x1008), atoms("E")];
    assert_eq!(
        follow(&etm4(&[]), &code, &packets),
        [
            "0x1000-0x1008 2 instructions A64",
            "exception 0x2 (Call: SVC, HVC or SMC), returns to 0x1008",
            "0x1008-0x1010 2 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn an_exception_where_execution_stands_has_no_range() {
    let lines = follow(&etm4(&[]), &words(&[NOP]), &[exception(0xE), address(0x1000)]);
    assert_eq!(lines, ["interrupt 0xe (IRQ), returns to 0x1000", END]);
}

#[test]
fn an_exception_behind_execution_is_a_mismatch_without_a_range() {
    let code = words(&[b(1), NOP]);
    let lines = follow(&etm4(&[]), &code, &[atoms("E"), exception(0xE), address(0x1000)]);
    assert_eq!(
        lines[1],
        "image does not fit at 0x1004: an exception was taken before the address that was reached"
    );
    assert_eq!(lines[2], "interrupt 0xe (IRQ), returns to 0x1000");
}

#[test]
fn the_context_of_an_exception_comes_before_it_and_that_of_the_handler_behind() {
    let code = words(&[NOP, NOP, RET]);
    let handler = Packet::AddressContext(address_of(0x1008, Is::Is0), context_of(2, true));
    let packets = [exception(4), context(), address(0x1004), handler, atoms("E")];
    assert_eq!(
        follow(&etm4(&[]), &code, &packets),
        [
            "context: A64 EL1 Non-secure",
            "0x1000-0x1004 1 instructions A64",
            "exception 0x4 (System Error), returns to 0x1004",
            "context: A64 EL2 Non-secure",
            "0x1008-0x100c 1 instructions A64 return",
            END
        ]
    );
}

#[test]
fn an_exception_at_the_target_of_a_branch_takes_the_place_of_its_address() {
    let config = with_return_stack();
    let packets =
        [atoms("EE"), exception_at_target(0xE), address(0x1008), address(0x1004), atoms("EE"), atoms("E")];
    let lines = follow(&config, &words(CALLS), &packets);
    assert_eq!(lines[2], "interrupt 0xe (IRQ), returns to 0x1008 (target of the branch before)");
    // Nothing was popped for it: the return takes the newer entry, the next one the older.
    assert_eq!(lines[5], "0x1008-0x1010 2 instructions A64 return");
}

#[test]
fn an_exception_behind_a_return_pops() {
    let packets = [atoms("EE"), exception(0xE), address(0x1004)];
    let lines = follow(&with_return_stack(), &words(CALLS), &packets);
    assert_eq!(lines[2..], ["interrupt 0xe (IRQ), returns to 0x1004", END]);
}

#[test]
fn nothing_is_known_behind_an_exception_until_an_address() {
    let code = words(&[NOP, b(-1)]);
    let lines = follow(&etm4(&[]), &code, &[exception(0xE), address(0x1000), atoms("EE")]);
    assert_eq!(lines, ["interrupt 0xe (IRQ), returns to 0x1000", END]);
}

#[test]
fn an_exception_return_never_pops_and_is_marked() {
    let code = words(&[bl(1), ERET, RET]);
    let packets = [atoms("EE"), address(0x1008), Packet::ExceptionReturn, atoms("E")];
    let lines = follow(&with_return_stack(), &code, &packets);
    assert_eq!(
        lines[1..],
        [
            "0x1004-0x1008 1 instructions A64 exception return",
            "exception return",
            "0x1008-0x100c 1 instructions A64 return",
            END
        ]
    );
    let lines = follow(&with_return_stack(), &code, &[atoms("EEE")]);
    assert_eq!(lines.len(), 3, "an exception return took its target from the return stack");
}

#[test]
fn ete_infers_exception_returns_from_the_code() {
    let code = words(&[ERET, RET]);
    let lines = follow(&ete(&[]), &code, &[atoms("E"), address(0x1004), atoms("E")]);
    assert_eq!(lines[..2], ["0x1000-0x1004 1 instructions A64 exception return", "exception return"]);
    let lines = follow(&ete(&[]), &code, &[source(0x1000)]);
    assert_eq!(lines[..2], ["0x1000-0x1004 1 instructions A64 exception return", "exception return"]);
}

#[test]
fn a_reset_forgets_place_and_context() {
    let code = words(&[b(0)]);
    let packets = [atoms("E"), Packet::PeReset, address(0x1000), atoms("E"), context(), atoms("E")];
    let lines = follow(&ete(&[]), &code, &packets);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions A64 branch",
            "exception 0x0 (PE Reset)",
            "context: A64 EL1 Non-secure",
            "0x1000-0x1004 1 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn missing_code_is_told_once_and_the_flow_resumes_at_the_next_address() {
    let code = words(&[NOP, NOP]);
    let packets = [atoms("EEE"), atoms("N"), address(0x1004), atoms("E")];
    assert_eq!(
        follow(&etm4(&[]), &code, &packets),
        [
            "0x1000-0x1008 2 instructions A64",
            "gap: no code at 0x1008 (EL1N)",
            "0x1004-0x1008 1 instructions A64",
            "gap: no code at 0x1008 (EL1N)",
            END
        ]
    );
}

#[test]
fn an_exception_above_missing_code_tells_of_it_again() {
    let code = words(&[NOP]);
    let packets =
        [atoms("E"), exception(0xE), address(0x2000), address(0x1000), exception(0xE), address(0x1000)];
    assert_eq!(
        follow(&etm4(&[]), &code, &packets),
        [
            "0x1000-0x1004 1 instructions A64",
            "gap: no code at 0x1004 (EL1N)",
            "gap: no code at 0x1004 (EL1N)",
            "interrupt 0xe (IRQ), returns to 0x2000",
            "interrupt 0xe (IRQ), returns to 0x1000",
            END
        ]
    );
}

#[test]
fn identifiers_that_a_context_leaves_out_are_those_of_before() {
    let mut full = context_of(1, true);
    full.vmid = Some(3);
    full.context_id = Some(9);
    let packets = [Packet::Context(Some(full)), context(), Packet::Context(None), atoms("E")];
    let lines = follow(&etm4(&[]), &words(&[b(0)]), &packets);
    assert_eq!(lines[0], "context: A64 EL1 Non-secure VMID=0x3 CID=0x9");
    assert_eq!(lines[1], "context: A64 EL1 Non-secure VMID=0x3 CID=0x9");
    assert_eq!(lines[2], "0x1000-0x1004 1 instructions A64 branch");
}

#[test]
fn context_and_address_may_come_in_either_order() {
    // A32: b . and T32: b . at the same place.
    let code = words(&[0xEAFF_FFFE]);
    let begin = [Packet::Async, trace_info(), address(0xFFFF_FFFF_0000_1000), context32(), atoms("E")];
    let lines = raw(&etm4(&[]), &code, Default::default(), &begin);
    assert_eq!(lines[1..], ["context: A32 EL0 Non-secure", "0x1000-0x1004 1 instructions A32 branch", END]);
    let code = halfwords(&[0xE7FE]);
    let begin = [Packet::Async, trace_info(), address_t32(0x1000), context32(), atoms("E")];
    let lines = raw(&etm4(&[]), &code, Default::default(), &begin);
    assert_eq!(lines[1..], ["context: T32 EL0 Non-secure", "0x1000-0x1002 1 instructions T32 branch", END]);
}

#[test]
fn a_source_address_is_a_taken_branch_and_all_before_it_were_not() {
    let code = words(&[cbz(4), NOP, cbz(3), b(-2), RET]);
    let lines = follow(&ete(&[]), &code, &[source(0x100c), source(0x1008), source(0x1000), source(0x1010)]);
    assert_eq!(
        lines,
        [
            "0x1000-0x1010 4 instructions A64 branch",
            "0x1004-0x100c 2 instructions A64 branch",
            // Execution stands at 0x1014: only the source itself is certain.
            "0x1000-0x1004 1 instructions A64 branch",
            "0x1010-0x1014 1 instructions A64 return",
            END
        ]
    );
}

#[test]
fn an_unreadable_source_changes_nothing() {
    let lines = follow(&ete(&[]), &words(&[b(0)]), &[source(0x2000), atoms("E")]);
    assert_eq!(lines, ["gap: no code at 0x2000 (EL1N)", "0x1000-0x1004 1 instructions A64 branch", END]);
}

fn q(count: Option<u32>, to: Option<u64>) -> Packet {
    Packet::Q(Q { count, address: to.map(|to| address_of(to, Is::Is0)) })
}

#[test]
fn a_q_element_is_exact_where_only_its_last_instruction_can_branch() {
    let code = words(&[NOP, NOP, BR, NOP, b(-1)]);
    let packets = [
        q(Some(2), Some(0x1008)),
        q(Some(1), Some(0x1000)),
        q(Some(5), Some(0x100c)),
        q(None, None),
        context(),
        address(0x1004),
        q(Some(1), Some(0x100c)),
        atoms("E"),
    ];
    assert_eq!(
        follow(&ete(&[]), &code, &packets),
        [
            "0x1000-0x1008 2 instructions A64",
            "0x1008-0x100c 1 instructions A64 indirect branch",
            "gap: 5 instructions from 0x1000, path unknown, then 0x100c",
            "gap: some instructions from 0x100c, path unknown, then 0x1004",
            "context: A64 EL1 Non-secure",
            "gap: 1 instructions from 0x1004, path unknown, then 0x100c",
            "0x100c-0x1014 2 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn a_q_element_after_an_unknown_target_has_no_start_but_its_count() {
    let code = words(&[BR, NOP, b(-1)]);
    let lines = follow(&ete(&[]), &code, &[atoms("E"), q(Some(7), Some(0x1004)), atoms("E")]);
    assert_eq!(
        lines,
        [
            "0x1000-0x1004 1 instructions A64 indirect branch",
            "image does not fit at 0x1000: the target of an indirect branch is missing",
            "gap: 7 instructions, path unknown, then 0x1004",
            "0x1004-0x100c 2 instructions A64 branch",
            END
        ]
    );
}

#[test]
fn a_transaction_is_told_and_its_failure_waits_for_an_address() {
    let code = words(&[TSTART, NOP, b(-1)]);
    let packets = [
        atoms("E"),
        Packet::TransactionStart,
        atoms("E"),
        Packet::TransactionFailure,
        address(0x1004),
        atoms("E"),
        Packet::TransactionCommit,
    ];
    assert_eq!(
        follow(&ete(&[]), &code, &packets),
        [
            "0x1000-0x1004 1 instructions A64 tstart",
            "transaction start",
            "0x1004-0x100c 2 instructions A64 branch",
            "transaction failure",
            "0x1004-0x100c 2 instructions A64 branch",
            "transaction commit",
            END
        ]
    );
}

#[test]
fn waits_are_waypoints_only_where_the_unit_says_so() {
    let code = words(&[WFI, b(0)]);
    let lines = follow(&etm4(&[]), &code, &[atoms("E")]);
    assert_eq!(lines[0], "0x1000-0x1008 2 instructions A64 branch");
    let config = etm4(&[("TRCIDR1", 0x4100_F440), ("TRCIDR2", 0x8000_0488)]);
    assert_eq!(follow(&config, &code, &[atoms("E")])[0], "0x1000-0x1004 1 instructions A64 wait");
}

#[test]
fn barriers_are_waypoints() {
    let lines = follow(&etm4(&[]), &words(&[NOP, ISB, b(-2)]), &[atoms("EE")]);
    assert_eq!(lines[0], "0x1000-0x1008 2 instructions A64 isb");
    assert_eq!(lines[1], "0x1008-0x100c 1 instructions A64 branch");
}

#[test]
fn loads_and_stores_are_waypoints_where_the_configuration_says_so() {
    let code = words(&[LDR, STR, b(-2)]);
    let one = |configr: u32| follow(&etm4(&[("TRCCONFIGR", configr)]), &code, &[atoms("E")])[0].clone();
    assert_eq!(one(0b000), "0x1000-0x100c 3 instructions A64 branch");
    assert_eq!(one(0b010), "0x1000-0x1004 1 instructions A64");
    assert_eq!(one(0b100), "0x1000-0x1008 2 instructions A64");
}

#[test]
fn loads_and_stores_are_waypoints_where_the_trace_says_so() {
    let code = words(&[LDR, STR, b(-2)]);
    let mut info = backsight_arm::etm4::TraceInfo { sections: 1, ..Default::default() };
    let mut first = |bits: u32| {
        info.info = bits;
        let packets = [Packet::Async, Packet::TraceInfo(info), context(), address(0x1000), atoms("E")];
        raw(&etm4(&[]), &code, Default::default(), &packets)[2].clone()
    };
    assert_eq!(first(1 << 5), "0x1000-0x1008 2 instructions A64");
    assert_eq!(first(1 << 4), "0x1000-0x1004 1 instructions A64");
    assert_eq!(first(0), "0x1000-0x100c 3 instructions A64 branch");
}

/// A context with these identifiers.
fn identified(vmid: Option<u32>, context_id: Option<u32>) -> Packet {
    Packet::Context(Some(Context { vmid, context_id, ..context_of(1, true) }))
}

#[test]
fn identifiers_outlive_a_loss_of_synchronisation() {
    let packets = [
        identified(Some(5), Some(7)),
        atoms("E"),
        Packet::Overflow,
        Packet::Async,
        trace_info(),
        context(),
        address(0x1000),
        atoms("E"),
    ];
    let lines = follow(&etm4(&[]), &words(&[b(0)]), &packets);
    let contexts: Vec<_> = lines.iter().filter(|line| line.starts_with("context")).collect();
    assert_eq!(contexts.len(), 2, "{lines:?}");
    assert_eq!(contexts[0], contexts[1]);
}

#[test]
fn an_identifier_of_no_bytes_is_none() {
    // TRCIDR2: 64-bit addresses, neither VMIDs nor context IDs.
    let config = etm4(&[("TRCIDR2", 8)]);
    let lines = follow(&config, &words(&[b(0)]), &[identified(Some(0), Some(0)), atoms("E")]);
    assert_eq!(lines[0], "context: A64 EL1 Non-secure");
}
