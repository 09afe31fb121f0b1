// Packets to records, as etm4_record, for packets at the lanes of their headers.
//
//   type        value
//   BRANCH      the target: the Address packet that follows an E atom (or, in ETE, a Source Address)
//   EVENT       the events that occurred, bit i for event i
//   EXCEPTION   bits 9:0 the exception number
//   GAP         why the trace does not continue: etm4_pkg::WHY_*, or GAP_OVERFLOW, GAP_DISCARD
//
// What a packet says itself comes in first, and waits in block RAM for what follows from those before it: the cycle count
// threshold, then the address. The threshold comes so early that cycles are summed while addresses are not there yet: by a
// tree of adders, of which only the sum of the whole word goes from word to word.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: LAST + 1 cycles; those after the addresses are two, and three with 8 lanes.

module etm4_record_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                step,       // a word is at the inputs
    input  logic                restart,
    input  logic                gap,
    input  logic [LANES-1:0]    valid,
    input  logic [3*LANES-1:0]  bad,
    input  logic [8*LANES-1:0]  head,
    input  logic [LANES*etm4_pkg::MEANING-1:0] meaning,
    input  logic [72*LANES-1:0] after,      // the nine bytes after the header
    input  logic [21*LANES-1:0] cycles,     // what a Cycle Count counts, with bits that are not part of it
    input  logic [2*LANES-1:0]  cycles_end, // bit k: bits 7k+13:7k+7 are not
    // The same word, so many cycles later:
    input  logic [32*LANES-1:0] threshold,  // etm4_prefix_pkg::threshold_cycles(LANES)
    input  logic [LANES-1:0]    taken,      // state_cycles(LANES); an address here would be the target of a branch
    input  logic [64*LANES-1:0] address,    // state_cycles(LANES)
    output logic                gap_out,    // bytes were missing before lane 0
    output logic [3*LANES-1:0]  kind,       // etm4_pkg::RECORD_*; 0 for no record
    output logic [etm4_pkg::CYCLE*LANES-1:0] cycle,
    output logic [64*LANES-1:0] value
);

    localparam int MEANING = etm4_pkg::MEANING;
    localparam int LEVELS = $clog2(LANES);
    localparam int SUM = 32 + LEVELS;
    localparam int C = etm4_pkg::CYCLE;
    localparam int THRESHOLD = etm4_prefix_pkg::threshold_cycles(LANES);
    localparam int STATE = etm4_prefix_pkg::state_cycles(LANES);
    localparam int LAST = THRESHOLD + 1 + LEVELS;  // the sums of a word are there
    localparam int OWN = 10;

    // What a packet says itself: the type, the value if it is no address, and how many cycles it counts above the threshold.
    logic [3*LANES-1:0]   kind_0, kind_s;
    logic [OWN*LANES-1:0] own_0, own_s;
    logic [21*LANES-1:0]  count_0, count_t;
    logic [LANES-1:0]     none_0, none_t;   // it counts no cycles
    logic                 restart_0, gap_0, restart_s, gap_s;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_packet
            logic [MEANING-1:0] m;
            logic [7:0]  h;
            logic [15:0] r;
            logic [2:0]  kind_p;
            logic [OWN-1:0] own_p;
            logic        good, counts;
            assign m = meaning[MEANING*i+:MEANING];
            assign h = head[8*i+:8];
            assign r = after[72*i+:16];
            assign good = valid[i] && bad[3*i+:3] == etm4_pkg::WHY_NONE;
            assign counts = (m[etm4_pkg::M_CYCLES1] && !h[0]) || m[etm4_pkg::M_CYCLES2] || m[etm4_pkg::M_CYCLES3];
            always_comb begin
                kind_p = 3'b0;
                own_p = OWN'(bad[3*i+:3]);
                if (bad[3*i+:3] != etm4_pkg::WHY_NONE) begin
                    kind_p = etm4_pkg::RECORD_GAP;
                end else if (m[etm4_pkg::M_EXTENSION]) begin
                    if (r[7:0] != 8'h00) kind_p = etm4_pkg::RECORD_GAP;
                    own_p = OWN'(r[2:0] == 3'h5 ? etm4_pkg::GAP_OVERFLOW : etm4_pkg::GAP_DISCARD);
                end else if (m[etm4_pkg::M_EVENT]) begin
                    kind_p = etm4_pkg::RECORD_EVENT;
                    own_p = OWN'(h[3:0]);
                end else if (m[etm4_pkg::M_EXCEPTION]) begin
                    kind_p = etm4_pkg::RECORD_EXCEPTION;
                    own_p = {r[7] ? r[12:8] : 5'b0, r[5:1]};
                end else if (m[etm4_pkg::M_BRANCH]) begin
                    kind_p = etm4_pkg::RECORD_BRANCH;
                end
            end
            always_ff @(posedge clk) begin
                kind_0[3*i+:3] <= valid[i] ? kind_p : 3'b0;
                own_0[OWN*i+:OWN] <= own_p;
                none_0[i] <= !(good && counts);
                count_0[21*i+:7] <= cycles[21*i+:7];
                count_0[21*i+7+:7] <= cycles_end[2*i] ? 7'b0 : cycles[21*i+7+:7];
                count_0[21*i+14+:7] <= cycles_end[2*i+1] ? 7'b0 : cycles[21*i+14+:7];
            end
        end
    endgenerate
    always_ff @(posedge clk) {restart_0, gap_0} <= {restart, gap};
    block_delay #(.WIDTH(22 * LANES), .CYCLES(THRESHOLD - 1)) until_threshold (
        .clk, .rst, .in({none_0, count_0}), .out({none_t, count_t})
    );
    block_delay #(.WIDTH((3 + OWN) * LANES + 2), .CYCLES(STATE - 1)) until_state (
        .clk, .rst, .in({restart_0, gap_0, kind_0, own_0}), .out({restart_s, gap_s, kind_s, own_s})
    );

    // The cycles that each packet adds, and their sums up to each lane.
    logic [SUM*LANES-1:0] added;
    logic [SUM*LANES-1:0] sums [0:LEVELS];
    assign sums[0] = added;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_added
            logic [31:0] both;
            assign both = threshold[32*i+:32] + {11'b0, count_t[21*i+:21]};
            always_ff @(posedge clk) added[SUM*i+:SUM] <= none_t[i] ? '0 : SUM'(both);
        end
        for (genvar l = 0; l < LEVELS; l++) begin : g_level
            localparam int N = 1 << l;
            logic [SUM*LANES-1:0] sums_q;
            assign sums[l+1] = sums_q;
            for (genvar i = 0; i < LANES; i++) begin : g_sum
                if (i / N % 2 == 1) begin : g_right
                    always_ff @(posedge clk)
                        sums_q[SUM*i+:SUM] <= sums[l][SUM*i+:SUM] + sums[l][SUM*(i/N*N-1)+:SUM];
                end else begin : g_left
                    always_ff @(posedge clk) sums_q[SUM*i+:SUM] <= sums[l][SUM*i+:SUM];
                end
            end
        end
    endgenerate

    // The value, and whether an address is the target of a branch.
    logic [3*LANES-1:0]  kind_1, kind_2;
    logic [64*LANES-1:0] value_1, value_2;
    logic                restart_2, gap_2;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_value
            logic branch;
            assign branch = kind_s[3*i+:3] == etm4_pkg::RECORD_BRANCH;
            always_ff @(posedge clk) begin
                kind_1[3*i+:3] <= branch && !taken[i] ? 3'b0 : kind_s[3*i+:3];
                value_1[64*i+:64] <= branch ? address[64*i+:64] : 64'(own_s[OWN*i+:OWN]);
            end
        end
    endgenerate
    delay #(.WIDTH(67 * LANES), .CYCLES(LAST - STATE - 1)) until_summed (
        .clk, .in({kind_1, value_1}), .out({kind_2, value_2})
    );
    delay #(.WIDTH(2), .CYCLES(LAST - STATE)) restarts (.clk, .in({restart_s, gap_s}), .out({restart_2, gap_2}));

    // What the words before counted.
    logic [LAST:0] at;
    logic [C-1:0]  total, base;
    steps #(.CYCLES(LAST)) stages (.clk, .rst, .step, .at);
    assign base = restart_2 ? '0 : total;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_cycle
            if (i == 0) begin : g_first
                always_ff @(posedge clk) cycle[C-1:0] <= base;
            end else begin : g_after
                always_ff @(posedge clk) cycle[C*i+:C] <= base + C'(sums[LEVELS][SUM*(i-1)+:SUM]);
            end
        end
    endgenerate
    always_ff @(posedge clk) begin
        if (at[LAST]) total <= base + C'(sums[LEVELS][SUM*(LANES-1)+:SUM]);
        gap_out <= gap_2 && at[LAST] && !rst;
        kind <= at[LAST] && !rst ? kind_2 : '0;
        value <= value_2;
    end

endmodule
