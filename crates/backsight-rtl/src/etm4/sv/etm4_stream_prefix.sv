// Packet boundaries of an ETMv4/ETE stream, LANES bytes a cycle: the parallel-prefix form.
//
// etm4_lengths gives every lane's payload length, if it were a header. A skip map of a block of lanes says for each of its lanes:
// if a header is there, how many bytes after the end of the block is the next header? The map of one lane is its
// payload length, and that of a block follows from those of its halves. Only the map of the whole word meets the state of the
// stream, which is the number of bytes to pass over; then the same maps lead back to every lane.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: 2 log2(LANES) + 4 cycles.

module etm4_stream_prefix #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               step,    // a word is at the inputs
    input  logic               gap,     // bytes are missing before lane 0: reported
    input  logic               restart, // forget the packet and search for an Async
    input  logic [LANES-1:0]   keep,    // lanes that hold a byte: from lane 0 on, without holes
    input  logic [5*LANES-1:0] length,  // of etm4_lengths
    input  logic               found,   // of etm4_search
    input  logic [4:0]         after,   // the lane after it
    output logic               next,    // the outputs are those of a word in the next cycle
    output logic [LANES-1:0]   header,  // the byte is a header
    output logic [LANES-1:0]   async,   // the byte ends the Async that synchronises the stream
    output logic               restart_out,
    output logic               gap_out,
    output logic               cut,     // the gap cut off a packet
    output logic [LANES-1:0]   keep_out
);

    localparam int LEVELS = $clog2(LANES);
    localparam logic [4:0] HUNTING = 5'd31;  // no header before an Async
    localparam int WORD = 5 * LANES;
    localparam int STATE = LEVELS + 1;    // the stage that holds the state
    localparam int LAST = 2 * LEVELS + 3;

    logic [LAST:0] at;
    steps #(.CYCLES(LAST)) stages (.clk, .rst, .step, .at);
    assign next = at[LAST];

    // Up: maps of blocks of 1, 2, 4 … lanes.
    logic [WORD-1:0] up   [0:LEVELS];
    logic [WORD-1:0] held [0:LEVELS];
    assign up[0] = length;
    generate
        for (genvar l = 0; l < LEVELS; l++) begin : g_up
            localparam int N = 1 << l;
            logic [WORD-1:0] map, map_q;
            assign map = up[l];
            assign up[l+1] = map_q;
            for (genvar i = 0; i < LANES; i++) begin : g_lane
                if (i / N % 2 == 0) begin : g_left
                    logic [4:0]     o;
                    logic [5*N-1:0] right;
                    assign o = map[5*i+:5];
                    assign right = map[5*(i/N+1)*N+:5*N];
                    always_ff @(posedge clk) map_q[5*i+:5] <= o >= 5'(N) ? o - 5'(N) : right[5*(o&5'(N-1))+:5];
                end else begin : g_right
                    always_ff @(posedge clk) map_q[5*i+:5] <= map[5*i+:5];
                end
            end
            delay #(.WIDTH(WORD), .CYCLES(2 * LEVELS + 2 - 2 * l)) until_down (.clk, .in(up[l]), .out(held[l]));
        end
    endgenerate

    // Where the first header is if the stream is not synchronised: skip maps as one bit for each number of bytes.
    localparam int HUNT = 31;              // the bit of HUNTING
    logic            found_1, found_2, restart_2;
    logic [4:0]      after_1, after_skip;
    logic [WORD-1:0] map_1;
    logic [31:0]     after_2, first_skip;
    logic [32*LANES-1:0] map_2;            // of the lanes of a word; nothing after a restart
    assign map_1 = up[LEVELS];
    delay #(.WIDTH(6), .CYCLES(LEVELS)) searched (.clk, .in({found, after}), .out({found_1, after_1}));
    logic            restart_1;
    delay #(.WIDTH(1), .CYCLES(LEVELS)) restarts (.clk, .in(restart), .out(restart_1));
    assign after_skip = after_1 >= 5'(LANES) ? 5'd0 : map_1[5*(after_1&5'(LANES-1))+:5];
    generate
        for (genvar k = 0; k < LANES; k++) begin : g_map
            always_ff @(posedge clk)
                map_2[32*k+:32] <= restart_1 ? 32'b0 : 32'b1 << map_1[5*k+:5];
        end
    endgenerate
    always_ff @(posedge clk) begin
        restart_2 <= restart_1;
        found_2 <= found_1;
        after_2 <= 32'b1 << (found_1 ? after_1 : HUNTING);
        first_skip <= 32'b1 << (found_1 ? after_skip : HUNTING);
    end

    // The state of the stream: bytes to pass over, one bit for each number, so that the way round is one sum of products.
    logic [31:0] skip, skip_next, start_1;
    logic        hunting, hunted_1;
    assign hunting = restart_2 || skip[HUNT];
    always_comb begin
        skip_next = first_skip & {32{hunting}};
        for (int k = 0; k < LANES; k++) skip_next = skip_next | (map_2[32*k+:32] & {32{skip[k]}});
        for (int k = LANES; k < HUNT; k++) skip_next[k-LANES] = skip_next[k-LANES] || (skip[k] && !restart_2);
    end
    always_ff @(posedge clk) begin
        if (rst) skip <= 32'b1 << HUNT;
        else if (at[STATE]) skip <= skip_next;
        start_1 <= hunting ? after_2 : skip;
        hunted_1 <= hunting && found_2;
    end

    // As numbers again.
    function automatic [4:0] number_of(input [31:0] bits);
        number_of = 5'd0;
        for (int k = 0; k < 32; k++) if (bits[k]) number_of = number_of | 5'(k);
    endfunction
    logic [31:0] end_1;
    logic [4:0]  start, end_skip;
    logic        hunted;
    always_ff @(posedge clk) begin
        end_1 <= skip_next;
        start <= number_of(start_1);
        end_skip <= number_of(end_1);
        hunted <= hunted_1;
    end

    // Down: bytes to pass over before each block, and in the end before each lane.
    logic [WORD-1:0] down [0:LEVELS];
    assign down[LEVELS] = WORD'(start);
    generate
        for (genvar l = 0; l < LEVELS; l++) begin : g_down
            localparam int N = 1 << l;
            logic [5*(LANES/N)-1:0] skip_q;
            assign down[l] = WORD'(skip_q);
            for (genvar b = 0; b < LANES / N; b++) begin : g_block
                logic [4:0] s, mapped;
                assign s = down[l+1][5*(b/2)+:5];
                if (b % 2 == 0) begin : g_left
                    assign mapped = s;
                end else begin : g_right
                    logic [5*N-1:0] left;
                    assign left = held[l][5*(b-1)*N+:5*N];
                    assign mapped = s >= 5'(N) ? s - 5'(N) : left[5*(s&5'(N-1))+:5];
                end
                always_ff @(posedge clk) skip_q[5*b+:5] <= mapped;
            end
        end
    endgenerate

    // What the word is, at that time.
    logic [LANES-1:0] keep_3;
    logic             gap_3, restart_3, hunted_3, in_payload, pending;
    logic [4:0]       start_3, end_skip_3;
    logic [WORD-1:0]  skips;
    assign skips = down[0];
    delay #(.WIDTH(LANES + 2), .CYCLES(LAST)) words (
        .clk, .in({restart, gap, keep}), .out({restart_3, gap_3, keep_3})
    );
    delay #(.WIDTH(11), .CYCLES(LEVELS)) starts (
        .clk, .in({hunted, start, end_skip}), .out({hunted_3, start_3, end_skip_3})
    );

    // Does the word end within a packet? Its last byte is before the first lane that holds none.
    always_comb begin
        in_payload = keep_3[LANES-1] && end_skip_3 != 5'd0 && end_skip_3 != HUNTING;
        for (int i = 1; i < LANES; i++)
            in_payload = in_payload || (keep_3[i-1] && !keep_3[i] && skips[5*i+:5] != 5'd0);
        if (start_3 == HUNTING) in_payload = 1'b0;
    end

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_out
            always_ff @(posedge clk) begin
                header[i] <= keep_3[i] && skips[5*i+:5] == 5'd0;
                async[i] <= keep_3[i] && hunted_3 && start_3 == 5'(i + 1);
            end
        end
    endgenerate

    always_ff @(posedge clk) begin
        if (rst) pending <= 1'b0;
        else if (at[LAST]) begin
            if (keep_3[0]) pending <= in_payload;
            else if (gap_3) pending <= 1'b0;
        end
        restart_out <= restart_3;
        gap_out <= gap_3;
        cut <= gap_3 && pending;
        keep_out <= keep_3;
    end

endmodule
