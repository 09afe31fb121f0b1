// The encoder behind its connector: commit ports of a core in, words of a trace bus out.
//
//   te_commit (te_resolved) -> te_connector -> te_block_queue -> te_encoder

module te_top (
    input  logic clk,
    input  logic rst,
    input  logic enable,                                            // low: tracing ends
    output logic stall,                                             // the hart is asked to commit nothing more for now
    // Commit ports, the oldest instruction first.
    input  logic [te_pkg::PORTS-1:0]                 commit_valid,
    input  logic [te_pkg::PORTS*te_pkg::IADDR-1:0]   commit_pc,
    input  logic [3*te_pkg::PORTS-1:0]               commit_op,     // te_pkg::OP_*
    input  logic [4*te_pkg::PORTS-1:0]               commit_itype,  // of OP_JUMP
    input  logic [te_pkg::PORTS-1:0]                 commit_compressed,
    input  logic [te_pkg::PORTS-1:0]                 commit_sijump,
    // The branch unit, at least one cycle before commit; the core's pipeline is flushed.
    input  logic                                     resolved_valid,
    input  logic [te_pkg::IADDR-1:0]                 resolved_pc,
    input  logic                                     resolved_taken,
    input  logic [1:0]                               resolved_kind, // te_pkg::FLOW_*
    input  logic                                     flush,
    // A trap, after the instruction at port 0 if there is one; else port 0 has its address.
    input  logic                                     trap_valid,
    input  logic                                     trap_interrupt,
    input  logic [te_pkg::ECAUSE-1:0]                trap_cause,
    input  logic [te_pkg::IADDR-1:0]                 trap_tval,
    // For all ports.
    input  logic [te_pkg::PRIV-1:0]                  priv,
    input  logic [te_pkg::CONTEXT-1:0]               context_id,
    input  logic [1:0]                               ctype,
    input  logic [te_pkg::TIME-1:0]                  core_time,
    // The filter (te_filter).
    input  logic                        filter_trace,
    input  logic                        filter_iaddr_enable,
    input  logic [te_pkg::IADDR-1:0]    filter_iaddr_lower,
    input  logic [te_pkg::IADDR-1:0]    filter_iaddr_upper,
    input  logic                        filter_priv_enable,
    input  logic [te_pkg::PRIV-1:0]     filter_priv_lower,
    input  logic [te_pkg::PRIV-1:0]     filter_priv_upper,
    input  logic                        filter_cause_enable,
    input  logic [te_pkg::ECAUSE-1:0]   filter_cause_lower,
    input  logic [te_pkg::ECAUSE-1:0]   filter_cause_upper,
    input  logic                        filter_tval_enable,
    input  logic [te_pkg::IADDR-1:0]    filter_tval_lower,
    input  logic [te_pkg::IADDR-1:0]    filter_tval_upper,
    input  logic                        filter_tvec_enable,
    input  logic [te_pkg::IADDR-1:0]    filter_tvec_lower,
    input  logic [te_pkg::IADDR-1:0]    filter_tvec_upper,
    // The trace bus.
    output logic                        at_valid,
    input  logic                        at_ready,
    output logic [8*te_pkg::BUS-1:0]    at_data,
    output logic [(te_pkg::BUS > 1 ? $clog2(te_pkg::BUS) : 1)-1:0] at_bytes,
    input  logic                        af_valid,
    output logic                        af_ready,
    output logic                        lost                        // packets are being lost
);

    logic [te_pkg::PORTS:0]                      slot_valid, slot_ilastsize, slot_sijump;
    logic [te_pkg::IADDR-1:0]                    under_way;
    logic [te_pkg::RETIRE-1:0]                   so_far;
    logic [(te_pkg::PORTS+1)*(te_pkg::PORTS+1)-1:0] slot_from;
    logic [te_pkg::PORTS:0]                      slot_same;
    logic [(te_pkg::PORTS+1)*te_pkg::GROWTH-1:0] slot_grown;
    logic [4*(te_pkg::PORTS+1)-1:0]              slot_itype;
    logic [2*(te_pkg::PORTS+1)-1:0]              slot_ctype;
    logic [te_pkg::COUNT*(te_pkg::PORTS+1)-1:0]  slot_cycles;
    logic [te_pkg::IADDR-1:0]                    tval;
    logic                                        ended;
    // What retires, a cycle later.
    logic                                        now_enabled, traps, apart;
    logic [te_pkg::PORTS-1:0]                    counts, compressed, sijump, special;
    logic [te_pkg::PORTS*te_pkg::IADDR-1:0]      pc;
    logic [4*te_pkg::PORTS-1:0]                  itype;
    logic [te_pkg::PRIV-1:0]                     now_priv, before_priv;
    logic [te_pkg::CONTEXT-1:0]                  now_context, before_context;
    logic [1:0]                                  now_ctype;
    logic [te_pkg::TIME-1:0]                     now_time, before_time;
    logic [te_pkg::ECAUSE-1:0]                   cause;
    te_commit commit (
        .clk, .rst, .enable, .commit_valid, .commit_pc, .commit_op, .commit_itype, .commit_compressed, .commit_sijump,
        .resolved_valid, .resolved_pc, .resolved_taken, .resolved_kind, .flush, .trap_valid, .trap_interrupt,
        .trap_cause, .trap_tval, .priv, .context_id, .ctype, .core_time, .now_enabled, .counts, .traps, .pc, .compressed,
        .sijump, .special, .itype, .apart, .now_priv, .now_context, .now_ctype, .now_time, .before_priv, .before_context,
        .before_time, .cause, .tval
    );
    te_connector connector (
        .clk, .rst, .enable(now_enabled), .counts, .traps, .pc, .compressed, .commit_sijump(sijump), .special, .itype,
        .apart, .ctype(now_ctype), .slot_valid, .under_way, .so_far, .slot_from, .slot_same, .slot_grown, .slot_ilastsize,
        .slot_itype, .slot_sijump, .slot_ctype, .slot_cycles, .ended
    );

    logic in_valid, in_ready, in_ilastsize, in_sijump;
    logic [1:0]                 in_kind, in_ctype;
    logic [te_pkg::IADDR-1:0]   in_iaddr, in_tval;
    logic [te_pkg::RETIRE-1:0]  in_iretire;
    logic [3:0]                 in_itype;
    logic [te_pkg::COUNT-1:0]   in_cycles;
    logic [te_pkg::PRIV-1:0]    in_priv;
    logic [te_pkg::CONTEXT-1:0] in_context;
    logic [te_pkg::TIME-1:0]    in_time;
    logic [te_pkg::ECAUSE-1:0]  in_cause;
    te_block_queue queue (
        .clk, .rst, .stall, .slot_valid, .under_way, .pc, .so_far, .slot_from, .slot_same, .slot_grown, .slot_ilastsize,
        .slot_itype, .slot_sijump, .slot_ctype, .slot_cycles, .before_priv, .before_context, .before_time, .priv(now_priv),
        .context_id(now_context), .core_time(now_time), .cause, .tval, .ended, .out_valid(in_valid), .out_ready(in_ready),
        .out_kind(in_kind), .out_iaddr(in_iaddr), .out_iretire(in_iretire), .out_ilastsize(in_ilastsize), .out_itype(in_itype),
        .out_sijump(in_sijump), .out_ctype(in_ctype), .out_cycles(in_cycles), .out_priv(in_priv),
        .out_context(in_context), .out_time(in_time), .out_cause(in_cause), .out_tval(in_tval)
    );

    te_encoder encoder (
        .clk, .rst, .in_valid, .in_ready, .in_kind, .in_iaddr, .in_iretire, .in_ilastsize, .in_itype, .in_sijump,
        .in_notify(1'b0), .in_ctype, .in_cycles, .in_priv, .in_context, .in_time, .in_cause, .in_tval, .filter_trace,
        .filter_iaddr_enable, .filter_iaddr_lower, .filter_iaddr_upper, .filter_priv_enable, .filter_priv_lower,
        .filter_priv_upper, .filter_cause_enable, .filter_cause_lower, .filter_cause_upper, .filter_tval_enable,
        .filter_tval_lower, .filter_tval_upper, .filter_tvec_enable, .filter_tvec_lower, .filter_tvec_upper, .at_valid,
        .at_ready, .at_data, .at_bytes, .af_valid, .af_ready, .lost
    );

endmodule
