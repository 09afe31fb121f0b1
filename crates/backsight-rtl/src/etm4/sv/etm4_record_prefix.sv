// Packets to records, as etm4_record, for packets at the lanes of their headers.
//
//   type        value
//   BRANCH      the target: the Address packet that follows an E atom (or, in ETE, a Source Address)
//   EVENT       the events that occurred, bit i for event i
//   EXCEPTION   bits 9:0 the exception number
//   GAP         why the trace does not continue: etm4_pkg::WHY_*, or GAP_OVERFLOW, GAP_DISCARD
//
// The cycles that packets add are summed by a tree of adders; only the sum of the whole word goes from word to word.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: log2(LANES) + 3 cycles.

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
    input  logic [16*LANES-1:0] after,      // the two bytes after the header
    input  logic [21*LANES-1:0] cycles,     // what a Cycle Count packet counts above the threshold
    input  logic [LANES-1:0]    taken,      // an address here would be the target of a branch
    input  logic [64*LANES-1:0] address,
    input  logic [32*LANES-1:0] threshold,
    output logic                gap_out,    // bytes were missing before lane 0
    output logic [3*LANES-1:0]  kind,       // etm4_pkg::RECORD_*; 0 for no record
    output logic [etm4_pkg::CYCLE*LANES-1:0] cycle,
    output logic [64*LANES-1:0] value
);

    localparam int MEANING = etm4_pkg::MEANING;
    localparam int LEVELS = $clog2(LANES);
    localparam int SUM = 32 + LEVELS;
    localparam int C = etm4_pkg::CYCLE;

    // The type and the value, and the cycles that each packet adds.
    logic [3*LANES-1:0]  kind_1, kind_2;
    logic [64*LANES-1:0] value_1, value_2;
    logic [SUM*LANES-1:0] added_1;
    logic [SUM*LANES-1:0] sums [0:LEVELS];
    assign sums[0] = added_1;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_lane
            logic [MEANING-1:0] m;
            logic [7:0]  h;
            logic [15:0] r;
            logic [2:0]  kind_s, kind_0;
            logic [9:0]  own_s, own;
            logic [63:0] target;
            logic        has_own_s, has_own;   // the value is not an address
            logic [31:0] over, added;
            logic [20:0] counted;
            logic        adds, adds_0;
            assign added = over + {11'b0, counted};
            assign m = meaning[MEANING*i+:MEANING];
            assign h = head[8*i+:8];
            assign r = after[16*i+:16];
            always_comb begin
                kind_s = 3'b0;
                own_s = 10'b0;
                has_own_s = 1'b1;
                if (bad[3*i+:3] != etm4_pkg::WHY_NONE) begin
                    kind_s = etm4_pkg::RECORD_GAP;
                    own_s = {7'b0, bad[3*i+:3]};
                end else if (m[etm4_pkg::M_EXTENSION]) begin
                    if (r[7:0] != 8'h00) kind_s = etm4_pkg::RECORD_GAP;
                    own_s = 10'(r[2:0] == 3'h5 ? etm4_pkg::GAP_OVERFLOW : etm4_pkg::GAP_DISCARD);
                end else if (m[etm4_pkg::M_EVENT]) begin
                    kind_s = etm4_pkg::RECORD_EVENT;
                    own_s = {6'b0, h[3:0]};
                end else if (m[etm4_pkg::M_EXCEPTION]) begin
                    kind_s = etm4_pkg::RECORD_EXCEPTION;
                    own_s = {r[7] ? r[12:8] : 5'b0, r[5:1]};
                end else begin
                    if (m[etm4_pkg::M_BRANCH] && taken[i]) kind_s = etm4_pkg::RECORD_BRANCH;
                    has_own_s = 1'b0;
                end
                if (!valid[i]) kind_s = 3'b0;

                adds = valid[i] && bad[3*i+:3] == etm4_pkg::WHY_NONE
                    && ((m[etm4_pkg::M_CYCLES1] && !h[0]) || m[etm4_pkg::M_CYCLES2] || m[etm4_pkg::M_CYCLES3]);
            end
            always_ff @(posedge clk) begin
                kind_0 <= kind_s;
                own <= own_s;
                has_own <= has_own_s;
                target <= address[64*i+:64];
                kind_1[3*i+:3] <= kind_0;
                value_1[64*i+:64] <= has_own ? {54'b0, own} : target;
                over <= threshold[32*i+:32];
                counted <= cycles[21*i+:21];
                adds_0 <= adds;
                added_1[SUM*i+:SUM] <= adds_0 ? SUM'(added) : '0;
            end
        end
    endgenerate

    // The sums up to each lane.
    generate
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

    // Those of the words before.
    localparam int LAST = LEVELS + 2;
    logic          restart_2, gap_2;
    logic [LAST:0] at;
    logic [C-1:0]  total, base;
    steps #(.CYCLES(LAST)) stages (.clk, .rst, .step, .at);
    delay #(.WIDTH(67 * LANES), .CYCLES(LEVELS)) until_summed (.clk, .in({kind_1, value_1}), .out({kind_2, value_2}));
    delay #(.WIDTH(2), .CYCLES(LAST)) restarts (.clk, .in({restart, gap}), .out({restart_2, gap_2}));
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
