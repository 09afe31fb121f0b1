// The encoder: blocks of retired instructions in, words of a trace bus out.
//
//   te_filter -> te_stage -> te_items -> te_priority (te_branches, te_returns, te_resync) -> te_payload
//     -> te_packet_fifo -> te_encap
//
// A block is taken when in_valid and in_ready are high. in_kind says what it is: a block (IN_BLOCK), a time in which nothing
// was observed (IN_GAP), the end of tracing (IN_END).

module te_encoder (
    input  logic clk,
    input  logic rst,
    // Blocks.
    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic [1:0]                  in_kind,
    input  logic [te_pkg::IADDR-1:0]    in_iaddr,       // of the first instruction; without one, of the exception
    input  logic [te_pkg::RETIRE-1:0]   in_iretire,     // half-words that retired
    input  logic                        in_ilastsize,   // the last instruction has two half-words
    input  logic [3:0]                  in_itype,
    input  logic                        in_sijump,
    input  logic                        in_notify,      // report the last instruction
    input  logic [1:0]                  in_ctype,
    input  logic [te_pkg::COUNT-1:0]    in_cycles,      // since the block before; the greatest number stands for more
    input  logic [te_pkg::PRIV-1:0]     in_priv,
    input  logic [te_pkg::CONTEXT-1:0]  in_context,
    input  logic [te_pkg::TIME-1:0]     in_time,
    input  logic [te_pkg::ECAUSE-1:0]   in_cause,
    input  logic [te_pkg::IADDR-1:0]    in_tval,
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
    output logic                        lost            // packets are being lost
);

    logic [1:0] kind;
    logic       retired;
    assign retired = in_iretire != '0;
    te_filter filter (
        .clk, .rst, .trace(filter_trace),
        .iaddr_enable(filter_iaddr_enable), .iaddr_lower(filter_iaddr_lower), .iaddr_upper(filter_iaddr_upper),
        .priv_enable(filter_priv_enable), .priv_lower(filter_priv_lower), .priv_upper(filter_priv_upper),
        .cause_enable(filter_cause_enable), .cause_lower(filter_cause_lower), .cause_upper(filter_cause_upper),
        .tval_enable(filter_tval_enable), .tval_lower(filter_tval_lower), .tval_upper(filter_tval_upper),
        .tvec_enable(filter_tvec_enable), .tvec_lower(filter_tvec_lower), .tvec_upper(filter_tvec_upper),
        .taken(in_valid && in_ready), .kind(in_kind), .iaddr(in_iaddr), .retired, .itype(in_itype),
        .priv(in_priv), .cause(in_cause), .tval(in_tval), .out_kind(kind)
    );

    // Blocks with what the filter makes of them, and how many instructions retired: the decision begins here.
    localparam int BLOCK = 2 + 2 * te_pkg::IADDR + te_pkg::RETIRE + 3 + 4 + 2 + 2 + te_pkg::COUNT + te_pkg::PRIV
        + te_pkg::CONTEXT + te_pkg::TIME + te_pkg::ECAUSE;
    logic                       single, b_valid, b_ready, b_ilastsize, b_retired, b_single, b_sijump, b_notify;
    logic [1:0]                 b_kind, b_ctype;
    logic [te_pkg::IADDR-1:0]   b_iaddr, b_tval;
    logic [te_pkg::RETIRE-1:0]  b_iretire;
    logic [3:0]                 b_itype;
    logic [te_pkg::COUNT-1:0]   b_cycles;
    logic [te_pkg::PRIV-1:0]    b_priv;
    logic [te_pkg::CONTEXT-1:0] b_context;
    logic [te_pkg::TIME-1:0]    b_time;
    logic [te_pkg::ECAUSE-1:0]  b_cause;
    assign single = in_iretire <= (in_ilastsize ? te_pkg::RETIRE'(2) : te_pkg::RETIRE'(1));
    te_stage #(.WIDTH(BLOCK)) blocks (
        .clk, .rst, .in_valid, .in_ready,
        .in({kind, in_iaddr, in_iretire, in_ilastsize, retired, single, in_itype, in_sijump, in_notify, in_ctype, in_cycles,
             in_priv, in_context, in_time, in_cause, in_tval}),
        .out_valid(b_valid), .out_ready(b_ready),
        .out({b_kind, b_iaddr, b_iretire, b_ilastsize, b_retired, b_single, b_itype, b_sijump, b_notify, b_ctype, b_cycles,
              b_priv, b_context, b_time, b_cause, b_tval})
    );

    // Requests for packets.
    logic                       req_valid, req_notify, req_updiscon, req_branch, req_thaddr, req_interrupt, req_ienable;
    logic [2:0]                 req_kind;
    logic [te_pkg::IADDR-1:0]   req_address, req_from, req_tval;
    logic [30:0]                req_map;
    logic [4:0]                 req_count;
    logic                       req_failed, req_cached, req_irreport, weighed, as_index;
    logic [31:0]                req_counted;
    logic [te_pkg::IRETS-1:0]   req_irets;
    logic [te_pkg::PRIV-1:0]    req_priv;
    logic [te_pkg::CONTEXT-1:0] req_context;
    logic [te_pkg::TIME-1:0]    req_time;
    logic [te_pkg::ECAUSE-1:0]  req_cause;
    logic [1:0]                 req_status;
    logic room, half_empty;

    // The item under decision, and the one after it.
    logic every, hold, step, have, next_valid, next_end, next_trap;
    logic [te_pkg::PRIV-1:0]    next_priv;
    logic [1:0]                 next_ctype;
    logic [te_pkg::CONTEXT-1:0] next_context;
    logic [te_pkg::IADDR-1:0]   next_target;
    logic cur_valid, cur_trap, cur_interrupt, cur_sijump, cur_notify, cur_inner;
    logic [te_pkg::IADDR-1:0]   cur_address, cur_end, cur_tval;
    logic [3:0]                 cur_itype;
    logic [1:0]                 cur_ctype;
    logic [te_pkg::COUNT-1:0]   cur_weight;
    logic [te_pkg::PRIV-1:0]    cur_priv;
    logic [te_pkg::CONTEXT-1:0] cur_context;
    logic [te_pkg::TIME-1:0]    cur_time;
    logic [te_pkg::ECAUSE-1:0]  cur_cause;
    te_items items (
        .clk, .rst, .in_valid(b_valid), .in_ready(b_ready), .in_kind(b_kind), .in_iaddr(b_iaddr), .in_iretire(b_iretire),
        .in_ilastsize(b_ilastsize), .in_retired(b_retired), .in_single(b_single), .in_itype(b_itype), .in_sijump(b_sijump),
        .in_notify(b_notify), .in_ctype(b_ctype), .in_cycles(b_cycles), .in_priv(b_priv), .in_context(b_context),
        .in_time(b_time), .in_cause(b_cause), .in_tval(b_tval), .every, .hold, .step, .have, .next_valid, .next_end, .next_trap,
        .next_priv, .next_ctype, .next_context, .next_target, .cur_valid, .cur_address, .cur_end, .cur_trap, .cur_interrupt,
        .cur_itype, .cur_sijump, .cur_notify, .cur_inner, .cur_ctype, .cur_weight, .cur_priv, .cur_context,
        .cur_time, .cur_cause, .cur_tval
    );
    te_priority decide (
        .clk, .rst, .room, .half_empty, .every, .hold, .step, .have, .next_valid, .next_end, .next_trap, .next_priv,
        .next_ctype, .next_context, .next_target, .cur_valid, .cur_address, .cur_end, .cur_trap, .cur_interrupt, .cur_itype,
        .cur_sijump, .cur_notify, .cur_inner, .cur_ctype, .cur_weight, .cur_priv, .cur_context, .cur_time, .cur_cause, .cur_tval,
        .req_valid, .req_kind, .req_address, .req_from, .req_map, .req_count, .req_notify, .req_updiscon, .req_branch,
        .req_priv, .req_context, .req_time, .req_thaddr, .req_interrupt, .req_cause, .req_tval, .req_ienable, .req_status,
        .req_counted, .req_failed, .req_cached, .req_irreport, .req_irets, .weighed, .as_index, .lost
    );

    // A request waits for a cycle: the decision ends here. Room for its packet is given out before.
    logic                       held_valid, held_notify, held_updiscon, held_branch, held_thaddr, held_interrupt, held_ienable;
    logic [2:0]                 held_kind;
    logic [te_pkg::IADDR-1:0]   held_address, held_from, held_tval;
    logic [30:0]                held_map;
    logic [4:0]                 held_count;
    logic                       held_failed, held_cached, held_irreport;
    logic [31:0]                held_counted;
    logic [te_pkg::IRETS-1:0]   held_irets;
    logic [te_pkg::PRIV-1:0]    held_priv;
    logic [te_pkg::CONTEXT-1:0] held_context;
    logic [te_pkg::TIME-1:0]    held_time;
    logic [te_pkg::ECAUSE-1:0]  held_cause;
    logic [1:0]                 held_status;
    always_ff @(posedge clk) begin
        held_valid <= req_valid && !rst;
        {held_kind, held_address, held_from, held_map, held_count, held_notify, held_updiscon, held_branch,
            held_priv, held_context, held_time, held_thaddr, held_interrupt, held_cause, held_tval,
            held_ienable, held_status, held_counted, held_failed, held_cached, held_irreport, held_irets}
            <= {req_kind, req_address, req_from, req_map, req_count, req_notify, req_updiscon, req_branch,
            req_priv, req_context, req_time, req_thaddr, req_interrupt, req_cause, req_tval, req_ienable,
            req_status, req_counted, req_failed, req_cached, req_irreport, req_irets};
    end

    logic payload_valid;
    logic [te_pkg::PAYLOAD-1:0] payload;
    logic [4:0] payload_bytes;
    te_payload encode (
        .clk, .rst, .req_valid(held_valid), .req_kind(held_kind), .req_address(held_address), .req_from(held_from),
        .req_map(held_map), .req_count(held_count), .req_notify(held_notify), .req_updiscon(held_updiscon),
        .req_branch(held_branch), .req_priv(held_priv), .req_context(held_context), .req_time(held_time),
        .req_thaddr(held_thaddr), .req_interrupt(held_interrupt), .req_cause(held_cause), .req_tval(held_tval),
        .req_ienable(held_ienable), .req_status(held_status), .req_counted(held_counted),
        .req_failed(held_failed), .req_cached(held_cached), .req_irreport(held_irreport), .req_irets(held_irets), .weighed,
        .as_index, .out_valid(payload_valid), .out_payload(payload),
        .out_bytes(payload_bytes)
    );

    logic packet_valid, packet_ready;
    logic [$clog2(te_pkg::PACKET_DEPTH):0] given;
    logic [te_pkg::PAYLOAD-1:0] packet;
    logic [4:0] packet_bytes;
    te_packet_fifo fifo (
        .clk, .rst, .request(req_valid), .room, .half_empty, .given, .in_valid(payload_valid), .in_payload(payload),
        .in_bytes(payload_bytes), .out_valid(packet_valid), .out_ready(packet_ready), .out_payload(packet),
        .out_bytes(packet_bytes)
    );

    te_encap encapsulate (
        .clk, .rst, .in_valid(packet_valid), .in_ready(packet_ready), .in_payload(packet), .in_bytes(packet_bytes), .given,
        .at_valid, .at_ready, .at_data, .at_bytes, .af_valid, .af_ready
    );

endmodule
