// ETMv4/ETE instruction trace: the bytes of one source in, packets and records out, LANES bytes in every cycle.
// Parallel-prefix form: no path goes through all lanes in one cycle.
//
//   LANES   bytes a cycle, 8 or 16
//
// Packets come out at the lanes of their headers, which are counted as `byte_valid` says. Bytes are first packed into full words,
// and a word moves on when the next one comes: latency is counted in words (etm4_prefix_pkg). At the end of the
// trace `flush` moves all of them out; bytes after that begin a new stream.
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
    localparam int LENGTHS = etm4_prefix_pkg::lengths_words(LANES);
    localparam int SEARCH = etm4_prefix_pkg::SEARCH;
    localparam int ROOM = etm4_prefix_pkg::room_words(LANES);
    localparam int STREAM = etm4_prefix_pkg::stream_words(LANES);
    localparam int PACKETS = etm4_prefix_pkg::packets_words(LANES);
    localparam int SCAN = etm4_prefix_pkg::scan_words(LANES);
    localparam int STATE = etm4_prefix_pkg::state_words(LANES);

    // Full words.
    logic               advance, moved, w_gap, w_restart;
    logic [LANES-1:0]   w_keep;
    logic [8*LANES-1:0] w_data;
    lane_packer #(.LANES(LANES)) packer (
        .clk, .rst, .gap, .flush, .keep, .data,
        .advance, .out_gap(w_gap), .out_restart(w_restart), .out_keep(w_keep), .out_data(w_data)
    );
    always_ff @(posedge clk) moved <= advance && !rst;

    // How long packets would be, where the first Async is, and how many bytes there are.
    logic [5*LANES-1:0] length, s_length;
    logic [4*LANES-1:0] first, s_first;
    logic [3*LANES-1:0] why, s_why;
    logic [8*LANES-1:0] a_data, l_data, s_data;
    logic [LANES-1:0]   a_keep, l_keep, s_keep, s_header, s_async, complete, s_complete;
    logic               a_gap, a_restart, l_gap, l_restart, s_gap, s_restart, s_cut, found;
    logic [4:0]         found_next;
    logic [6:0]         r_room, room;

    etm4_lengths #(.LANES(LANES)) lengths (.clk, .advance, .data(w_data), .length, .first, .why);

    word_delay #(.WIDTH(8 * LANES + 1), .WORDS(LENGTHS - SEARCH)) to_search (
        .clk, .advance, .in({w_restart, w_data}), .out({a_restart, a_data})
    );
    valid_delay #(.WIDTH(LANES + 1), .WORDS(LENGTHS - SEARCH)) kept_to_search (
        .clk, .rst, .advance, .in({w_gap, w_keep}), .out({a_gap, a_keep})
    );
    etm4_search #(.LANES(LANES)) search (
        .clk, .advance, .restart(a_restart), .keep(a_keep), .data(a_data), .found, .next(found_next)
    );
    word_delay #(.WIDTH(8 * LANES + 1), .WORDS(SEARCH)) to_stream (
        .clk, .advance, .in({a_restart, a_data}), .out({l_restart, l_data})
    );
    valid_delay #(.WIDTH(LANES + 1), .WORDS(SEARCH)) kept_to_stream (
        .clk, .rst, .advance, .in({a_gap, a_keep}), .out({l_gap, l_keep})
    );

    etm4_room #(.LANES(LANES)) bytes_there (.clk, .advance, .restart(w_restart), .keep(w_keep), .room(r_room));
    word_delay #(.WIDTH(7), .WORDS(LENGTHS - ROOM)) rooms (.clk, .advance, .in(r_room), .out(room));
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_complete
            always_ff @(posedge clk) if (advance) complete[i] <= {2'b0, length[5*i+:5]} + 7'(i) < room;
        end
    endgenerate

    // Where packets begin.
    etm4_stream_prefix #(.LANES(LANES)) stream (
        .clk, .rst, .advance, .gap(l_gap), .restart(l_restart), .keep(l_keep), .length, .found, .next(found_next),
        .header(s_header), .async(s_async), .gap_out(s_gap), .cut(s_cut), .keep_out(s_keep)
    );
    word_delay #(.WIDTH(20 * LANES + 1), .WORDS(STREAM)) around_stream (
        .clk, .advance, .in({l_restart, l_data, length, first, why}), .out({s_restart, s_data, s_length, s_first, s_why})
    );
    word_delay #(.WIDTH(LANES), .WORDS(STREAM - 1)) completes (.clk, .advance, .in(complete), .out(s_complete));

    // What they are.
    logic [LANES-1:0]    valid, p_valid, good, sf, taken, taken_set, taken_to, p_taken;
    logic [8*LANES-1:0]  p_bytes, head, info;
    logic [5*LANES-1:0]  payload;
    logic [4*LANES-1:0]  p_first;
    logic [3*LANES-1:0]  bad;
    logic [LANES*MEANING-1:0] meaning, p_meaning;
    logic [72*LANES-1:0] after, raw;
    logic [21*LANES-1:0] cycles, p_cycles;
    logic [9*LANES-1:0]  wrote;
    logic [32*LANES-1:0] number, count, vmid, cid;
    logic                p_restart, o_restart, p_gap, p_cut, o_gap, o_cut;
    logic [LANES-1:0]    p_keep, o_keep;
    etm4_packets_prefix #(.LANES(LANES)) packets (
        .clk, .rst, .advance, .header(s_header), .async(s_async), .complete(s_complete), .data(s_data),
        .length(s_length), .first(s_first), .why(s_why),
        .valid, .bytes(p_bytes), .head, .payload, .bad, .meaning, .after, .sf, .cycles, .raw, .wrote, .number, .count,
        .info, .vmid, .cid
    );
    word_delay #(.WIDTH(4 * LANES + 1), .WORDS(PACKETS)) around_packets (
        .clk, .advance, .in({s_restart, s_first}), .out({p_restart, p_first})
    );
    valid_delay #(.WIDTH(LANES + 2), .WORDS(PACKETS)) kept_around_packets (
        .clk, .rst, .advance, .in({s_gap, s_cut, s_keep}), .out({p_gap, p_cut, p_keep})
    );

    // What they say with what came before.
    logic [16*LANES-1:0] first_two, p_first_two;
    logic [21*LANES-1:0] counted;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_good
            logic [MEANING-1:0] m;
            logic stops;
            assign m = meaning[MEANING*i+:MEANING];
            assign good[i] = valid[i] && bad[3*i+:3] == etm4_pkg::WHY_NONE;
            assign first_two[16*i+:16] = after[72*i+:16];
            assign counted[21*i+:21] = m[etm4_pkg::M_CYCLES1] ? cycles[21*i+:21]
                : m[etm4_pkg::M_CYCLES2] ? {17'b0, after[72*i+:4]} : {19'b0, head[8*i+:2]};
            // A bad packet, Discard and Overflow end what is known of the last branch.
            assign stops = bad[3*i+:3] != etm4_pkg::WHY_NONE || (m[etm4_pkg::M_EXTENSION] && after[72*i+:8] != 8'h00);
            assign taken_to[i] = m[etm4_pkg::M_SETS_TAKEN] && !stops;
            assign taken_set[i] = valid[i] && (stops || m[etm4_pkg::M_SETS_TAKEN] || m[etm4_pkg::M_CLEARS_TAKEN]);
            assign packet_kind[6*i+:6] = p_meaning[MEANING*i+etm4_pkg::M_KIND+:6];
        end
    endgenerate
    lane_scan #(.LANES(LANES)) branches (
        .clk, .advance, .restart(p_restart), .set(taken_set), .value(taken_to), .prior(taken)
    );
    etm4_state_prefix #(.LANES(LANES)) state (
        .clk, .rst, .advance, .restart(p_restart), .good, .bytes(p_bytes), .meaning, .after, .stamped(p_first), .sf,
        .address(packet_address), .is(packet_is), .timestamp(packet_timestamp), .threshold(packet_threshold)
    );
    word_delay #(.WIDTH(LANES), .WORDS(STATE - SCAN)) taken_around_state (.clk, .advance, .in(taken), .out(p_taken));
    word_delay #(.WIDTH((MEANING + 3 + 8 + 5 + 16 + 21 + 72 + 9 + 32 + 32 + 8 + 32 + 32) * LANES + 1), .WORDS(STATE))
        around_state (
        .clk, .advance,
        .in({p_restart, meaning, bad, head, payload, first_two, counted, raw, wrote, number, count, info, vmid, cid}),
        .out({o_restart, p_meaning, packet_why, packet_header, packet_payload, p_first_two, p_cycles, packet_raw,
              packet_wrote, packet_number, packet_count, packet_info, packet_vmid, packet_cid})
    );
    valid_delay #(.WIDTH(2 * LANES + 2), .WORDS(STATE)) kept_around_state (
        .clk, .rst, .advance, .in({p_gap, p_cut, p_keep, valid}), .out({o_gap, o_cut, o_keep, p_valid})
    );
    assign packet_gap = o_gap && moved;
    assign packet_cut = o_cut && moved;
    assign byte_valid = moved ? o_keep : '0;
    assign packet_valid = moved ? p_valid : '0;

    logic               r_gap;
    logic [3*LANES-1:0] r_kind;
    etm4_record_prefix #(.LANES(LANES)) record (
        .clk, .rst, .advance, .restart(o_restart), .gap(o_gap), .valid(p_valid), .bad(packet_why),
        .head(packet_header), .meaning(p_meaning), .after(p_first_two), .cycles(p_cycles), .taken(p_taken),
        .address(packet_address), .threshold(packet_threshold),
        .gap_out(r_gap), .kind(r_kind), .cycle(record_cycle), .value(record_value)
    );
    assign record_gap = r_gap && moved;
    assign record_kind = moved ? r_kind : '0;

endmodule
