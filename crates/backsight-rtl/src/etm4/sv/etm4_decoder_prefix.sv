// ETMv4/ETE instruction trace: the bytes of one source in, packets and records out, LANES bytes in every cycle.
// Parallel-prefix form: no path goes through all lanes in one cycle.
//
//   LANES   bytes a cycle, 8 or 16
//
// Packets come out at the lanes of their headers, which are counted as `byte_valid` says. Bytes are first packed into full words,
// and packets wait for the words in which they could end. At the end of the trace `flush` moves all of them out; bytes after
// that begin a new stream.
//
// Nothing stalls. Between stages a word is there in cycles in which their `step` is high; words that stages look ahead at make
// them later, and what is needed beside them waits in a queue. What waits for addresses, which take longest, waits in block RAM.
// The configuration of the trace unit is compiled in: etm4_pkg, etm4_header and etm4_meaning are written for it.

module etm4_decoder #(
    parameter int LANES = @LANES@
) (
    input  logic                clk,
    input  logic                rst,       // synchronous
    input  logic                gap,       // bytes are missing before lane 0
    input  logic                flush,     // the trace is over: high for 80 cycles
    input  logic [LANES-1:0]    keep,      // lanes that hold a byte; none while `flush` is high
    input  logic [8*LANES-1:0]  data,      // lane 0, the oldest byte, in bits 7:0
    // Packets, by the lanes of their headers.
    output logic [LANES-1:0]    byte_valid,     // lanes that hold a byte
    output logic [LANES-1:0]    packet_valid,
    output logic                packet_gap,     // bytes were missing before lane 0
    output logic                packet_cut,     // a packet was cut off there
    output logic [5*LANES-1:0]  packet_payload, // bytes after the header
    output logic [6*LANES-1:0]  packet_kind,    // etm4_pkg::KIND_*
    output logic [3*LANES-1:0]  packet_why,     // etm4_pkg::WHY_*
    output logic [8*LANES-1:0]  packet_header,
    output logic [72*LANES-1:0] packet_raw,     // bytes of the first part of the payload
    output logic [9*LANES-1:0]  packet_wrote,   // those that it has
    output logic [32*LANES-1:0] packet_number,  // not of a Trace Info
    output logic [32*LANES-1:0] packet_count,
    output logic [8*LANES-1:0]  packet_info,    // context: the information byte
    output logic [32*LANES-1:0] packet_vmid,
    output logic [32*LANES-1:0] packet_cid,
    output logic [64*LANES-1:0] packet_address, // the newest address after the packet
    output logic [LANES-1:0]    packet_is,
    output logic [64*LANES-1:0] packet_timestamp,
    output logic [32*LANES-1:0] packet_threshold, // after the byte of the lane: of a Trace Info at its last byte
    // Records, by the same lanes.
    output logic                record_gap,
    output logic [3*LANES-1:0]  record_kind,    // etm4_pkg::RECORD_*
    output logic [etm4_pkg::CYCLE*LANES-1:0] record_cycle,
    output logic [64*LANES-1:0] record_value
);

    localparam int MEANING = etm4_pkg::MEANING;
    localparam int SCAN = etm4_prefix_pkg::scan_cycles(LANES);
    localparam int STATE = etm4_prefix_pkg::state_cycles(LANES);

    // Full words.
    logic               w_step, w_gap, w_restart;
    logic [LANES-1:0]   w_keep;
    logic [8*LANES-1:0] w_data;
    lane_packer #(.LANES(LANES)) packer (
        .clk, .rst, .gap, .flush, .keep, .data,
        .step(w_step), .out_gap(w_gap), .out_restart(w_restart), .out_keep(w_keep), .out_data(w_data)
    );

    // How long packets would be, where the first Async is, and how many bytes there are.
    logic               l_next, l_step, l_gap, l_restart, r_ready, f_found, l_found;
    logic [2:0]         f_step;
    logic [4:0]         f_after, l_after;
    logic [6:0]         r_room, l_room;
    logic [LANES-1:0]   l_keep;
    logic [8*LANES-1:0] l_data;
    logic [5*LANES-1:0] l_length, s_length;
    logic [4*LANES-1:0] l_first, s_first;
    logic [3*LANES-1:0] l_why, s_why;
    etm4_lengths #(.LANES(LANES)) lengths (
        .clk, .rst, .step(w_step), .data(w_data), .next(l_next), .length(l_length), .first(l_first), .why(l_why)
    );
    etm4_search #(.LANES(LANES)) search (
        .clk, .rst, .step(w_step), .restart(w_restart), .keep(w_keep), .data(w_data), .found(f_found), .after(f_after)
    );
    etm4_room #(.LANES(LANES)) bytes_there (
        .clk, .rst, .step(w_step), .restart(w_restart), .keep(w_keep), .ready(r_ready), .room(r_room)
    );
    always_ff @(posedge clk) begin
        f_step <= rst ? '0 : {f_step[1:0], w_step};
        l_step <= l_next && !rst;
    end
    word_queue #(.WIDTH(9 * LANES + 2)) until_lengths (
        .clk, .rst, .put(w_step), .in({w_restart, w_gap, w_keep, w_data}), .take(l_next),
        .out({l_restart, l_gap, l_keep, l_data})
    );
    word_queue #(.WIDTH(6)) found (
        .clk, .rst, .put(f_step[2]), .in({f_found, f_after}), .take(l_next), .out({l_found, l_after})
    );
    word_queue #(.WIDTH(7)) rooms (.clk, .rst, .put(r_ready), .in(r_room), .take(l_next), .out(l_room));

    // Where packets begin, and whether they are whole.
    logic               s_next, s_step, s_gap, s_restart, s_cut;
    logic [1:0]         c_step;
    logic [5*LANES-1:0] c_length;
    logic [LANES-1:0]   s_keep, s_header, s_async, complete, s_complete;
    logic [8*LANES-1:0] s_data;
    etm4_stream_prefix #(.LANES(LANES)) stream (
        .clk, .rst, .step(l_step), .gap(l_gap), .restart(l_restart), .keep(l_keep), .length(l_length), .found(l_found),
        .after(l_after), .next(s_next), .header(s_header), .async(s_async), .restart_out(s_restart), .gap_out(s_gap),
        .cut(s_cut), .keep_out(s_keep)
    );
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_complete
            logic [6:0] most;
            always_ff @(posedge clk) begin
                most <= l_room > 7'(i) ? l_room - 7'(i) : 7'd0;
                complete[i] <= {2'b0, c_length[5*i+:5]} < most;
            end
        end
    endgenerate
    always_ff @(posedge clk) begin
        c_step <= rst ? '0 : {c_step[0], l_step};
        c_length <= l_length;
        s_step <= s_next && !rst;
    end
    word_queue #(.WIDTH(LANES), .DEPTH(16)) completes (
        .clk, .rst, .put(c_step[1]), .in(complete), .take(s_next), .out(s_complete)
    );
    word_queue #(.WIDTH(8 * LANES), .DEPTH(16)) bytes_of_packets (
        .clk, .rst, .put(l_step), .in(l_data), .take(s_next), .out(s_data)
    );
    word_queue #(.WIDTH(5 * LANES), .DEPTH(16)) lengths_of_packets (
        .clk, .rst, .put(l_step), .in(l_length), .take(s_next), .out(s_length)
    );
    word_queue #(.WIDTH(4 * LANES), .DEPTH(16)) firsts_of_packets (
        .clk, .rst, .put(l_step), .in(l_first), .take(s_next), .out(s_first)
    );
    word_queue #(.WIDTH(3 * LANES), .DEPTH(16)) reasons_of_packets (
        .clk, .rst, .put(l_step), .in(l_why), .take(s_next), .out(s_why)
    );

    // What they are.
    logic                p_next, p_step, p_restart, p_gap, p_cut;
    logic [LANES-1:0]    valid, p_keep, good, sf, taken, taken_set, taken_to, o_taken;
    logic [8*(LANES+9)-1:0] p_bytes;
    logic [8*LANES-1:0]  head, info;
    logic [5*LANES-1:0]  payload;
    logic [4*LANES-1:0]  p_first;
    logic [3*LANES-1:0]  bad;
    logic [LANES*MEANING-1:0] meaning;
    logic [72*LANES-1:0] after, raw;
    logic [21*LANES-1:0] cycles;
    logic [2*LANES-1:0]  cycles_end;
    logic [9*LANES-1:0]  wrote;
    logic [32*LANES-1:0] number, count, vmid, cid;
    etm4_packets_prefix #(.LANES(LANES)) packets (
        .clk, .rst, .step(s_step), .header(s_header), .async(s_async), .complete(s_complete), .data(s_data),
        .length(s_length), .first(s_first), .why(s_why), .next(p_next),
        .valid, .bytes(p_bytes), .head, .payload, .bad, .meaning, .after, .sf, .cycles, .cycles_end, .raw, .wrote, .number,
        .count, .info, .vmid, .cid
    );
    always_ff @(posedge clk) p_step <= p_next && !rst;
    word_queue #(.WIDTH(LANES + 3), .DEPTH(16)) kept_with_packets (
        .clk, .rst, .put(s_step), .in({s_restart, s_gap, s_cut, s_keep}), .take(p_next),
        .out({p_restart, p_gap, p_cut, p_keep})
    );
    word_queue #(.WIDTH(4 * LANES), .DEPTH(16)) firsts_with_packets (
        .clk, .rst, .put(s_step), .in(s_first), .take(p_next), .out(p_first)
    );

    // What they say with what came before.
    logic                o_next, o_step, o_gap, o_cut;
    logic [LANES-1:0]    o_keep, o_valid;
    logic [6*LANES-1:0]  kind;
    logic [32*LANES-1:0] threshold_soon;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_good
            logic [MEANING-1:0] m;
            logic stops;
            assign m = meaning[MEANING*i+:MEANING];
            assign good[i] = valid[i] && bad[3*i+:3] == etm4_pkg::WHY_NONE;
            // A bad packet, Discard and Overflow end what is known of the last branch.
            assign stops = bad[3*i+:3] != etm4_pkg::WHY_NONE || (m[etm4_pkg::M_EXTENSION] && after[72*i+:8] != 8'h00);
            assign taken_to[i] = m[etm4_pkg::M_SETS_TAKEN] && !stops;
            assign taken_set[i] = valid[i] && (stops || m[etm4_pkg::M_SETS_TAKEN] || m[etm4_pkg::M_CLEARS_TAKEN]);
            assign kind[6*i+:6] = m[etm4_pkg::M_KIND+:6];
        end
    endgenerate
    lane_scan #(.LANES(LANES)) branches (
        .clk, .rst, .step(p_step), .restart(p_restart), .set(taken_set), .value(taken_to), .prior(taken)
    );
    etm4_state_prefix #(.LANES(LANES)) state (
        .clk, .rst, .step(p_step), .restart(p_restart), .good, .bytes(p_bytes), .meaning, .after, .stamped(p_first), .sf,
        .next(o_next), .address(packet_address), .is(packet_is), .timestamp(packet_timestamp),
        .threshold(packet_threshold), .threshold_soon
    );
    always_ff @(posedge clk) o_step <= o_next && !rst;
    delay #(.WIDTH(LANES), .CYCLES(STATE - SCAN)) taken_around_state (.clk, .in(taken), .out(o_taken));
    block_delay #(.WIDTH((1 + 1 + 5 + 6 + 3 + 8 + 72 + 9 + 32 + 32 + 8 + 32 + 32) * LANES + 2), .CYCLES(STATE)) around_state (
        .clk, .rst,
        .in({p_gap, p_cut, p_keep, valid, payload, kind, bad, head, raw, wrote, number, count, info, vmid, cid}),
        .out({o_gap, o_cut, o_keep, o_valid, packet_payload, packet_kind, packet_why, packet_header, packet_raw, packet_wrote,
              packet_number, packet_count, packet_info, packet_vmid, packet_cid})
    );
    assign packet_gap = o_gap && o_step;
    assign packet_cut = o_cut && o_step;
    assign byte_valid = o_step ? o_keep : '0;
    assign packet_valid = o_step ? o_valid : '0;

    etm4_record_prefix #(.LANES(LANES)) record (
        .clk, .rst, .step(p_step), .restart(p_restart), .gap(p_gap), .valid, .bad, .head, .meaning, .after, .cycles,
        .cycles_end, .threshold(threshold_soon), .taken(o_taken), .address(packet_address),
        .gap_out(record_gap), .kind(record_kind), .cycle(record_cycle), .value(record_value)
    );

endmodule
