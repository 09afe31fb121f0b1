// Packets to records: (type, cycle, value).
//
//   type        value
//   BRANCH      the target: the Address packet that follows an E atom (or, in ETE, a Source Address)
//   EVENT       the events that occurred, bit i for event i
//   EXCEPTION   bits 9:0 the exception number
//   GAP         why the trace does not continue: etm4_pkg::WHY_*, or GAP_OVERFLOW, GAP_DISCARD
//
// `cycle` is the sum of the cycle counts (threshold included) of the packets before; counts that the trace unit did
// not know add nothing, and a gap begins at 0 again. Speculation is not resolved: what a Cancel takes back has been
// reported.
//
//   LANES   bytes a cycle
//
// Latency: three cycles.

module etm4_record #(
    parameter int LANES = 4
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                gap,
    input  logic [LANES-1:0]    last,
    input  logic [3*LANES-1:0]  why,
    input  logic [8*LANES-1:0]  head,
    input  logic [LANES*etm4_pkg::MEANING-1:0] meaning,
    input  logic [16*LANES-1:0] raw,        // the first two bytes of the payload
    input  logic [32*LANES-1:0] count,
    input  logic [64*LANES-1:0] address,
    input  logic [32*LANES-1:0] threshold,
    output logic                gap_out,    // bytes were missing before lane 0
    output logic [3*LANES-1:0]  kind,       // etm4_pkg::RECORD_*; 0 for no record
    output logic [etm4_pkg::CYCLE*LANES-1:0] cycle,
    output logic [64*LANES-1:0] value
);

    // Stage 1: the type, the value, and the cycles that each packet adds.
    logic                gap_1, taken, taken_s, ok, zero_ext;
    logic [3*LANES-1:0]  kind_1, kind_s;
    logic [64*LANES-1:0] value_1, value_s;
    logic [32*LANES-1:0] added_1, added_s;
    logic [20:0] counted;
    logic        adds;
    logic [etm4_pkg::MEANING-1:0] m;
    logic [7:0]  h;
    logic [15:0] r;

    always_comb begin
        taken_s = gap ? 1'b0 : taken;
        kind_s = '0;
        value_s = '0;
        added_s = '0;
        counted = '0;
        adds = 1'b0;
        m = '0;
        h = '0;
        r = '0;
        ok = 1'b0;
        zero_ext = 1'b0;
        for (int i = 0; i < LANES; i++) begin
            m = meaning[etm4_pkg::MEANING*i+:etm4_pkg::MEANING];
            h = head[8*i+:8];
            r = raw[16*i+:16];
            ok = last[i] && why[3*i+:3] == 3'b0;
            zero_ext = m[etm4_pkg::M_EXTENSION] && r[7:0] != 8'h00;
            if (last[i] && !ok) begin
                kind_s[3*i+:3] = etm4_pkg::RECORD_GAP;
                value_s[64*i+:64] = {61'b0, why[3*i+:3]};
                taken_s = 1'b0;
            end else if (ok && zero_ext) begin
                kind_s[3*i+:3] = etm4_pkg::RECORD_GAP;
                value_s[64*i+:64] = r[2:0] == 3'h5 ? etm4_pkg::GAP_OVERFLOW : etm4_pkg::GAP_DISCARD;
                taken_s = 1'b0;
            end else if (ok) begin
                if (m[etm4_pkg::M_BRANCH] && taken_s) begin
                    kind_s[3*i+:3] = etm4_pkg::RECORD_BRANCH;
                    value_s[64*i+:64] = address[64*i+:64];
                end else if (m[etm4_pkg::M_EVENT]) begin
                    kind_s[3*i+:3] = etm4_pkg::RECORD_EVENT;
                    value_s[64*i+:64] = {60'b0, h[3:0]};
                end else if (m[etm4_pkg::M_EXCEPTION]) begin
                    kind_s[3*i+:3] = etm4_pkg::RECORD_EXCEPTION;
                    value_s[64*i+:64] = {54'b0, r[7] ? r[12:8] : 5'b0, r[5:1]};
                end
                if (m[etm4_pkg::M_SETS_TAKEN]) taken_s = 1'b1;
                else if (m[etm4_pkg::M_CLEARS_TAKEN]) taken_s = 1'b0;
            end
            counted = m[etm4_pkg::M_CYCLES1] ? count[32*i+:21] : m[etm4_pkg::M_CYCLES2] ? {17'b0, r[3:0]} : {19'b0, h[1:0]};
            adds = ok && ((m[etm4_pkg::M_CYCLES1] && !h[0]) || m[etm4_pkg::M_CYCLES2] || m[etm4_pkg::M_CYCLES3]);
            added_s[32*i+:32] = adds ? threshold[32*i+:32] + {11'b0, counted} : 32'b0;
        end
    end

    always_ff @(posedge clk) begin
        taken <= rst ? 1'b0 : taken_s;
        gap_1 <= gap && !rst;
        kind_1 <= rst ? '0 : kind_s;
        value_1 <= value_s;
        added_1 <= rst ? '0 : added_s;
    end

    // Stage 2: the cycles that the lanes before add, and those of the whole word.
    localparam int C = etm4_pkg::CYCLE;
    localparam int SUM = 32 + $clog2(LANES);
    logic                gap_2;
    logic [3*LANES-1:0]  kind_2;
    logic [64*LANES-1:0] value_2;
    logic [SUM*LANES-1:0] before_2, before_s;
    logic [SUM-1:0]       sum, total_2;

    always_comb begin
        sum = '0;
        for (int i = 0; i < LANES; i++) begin
            before_s[SUM*i+:SUM] = sum;
            sum = sum + SUM'(added_1[32*i+:32]);
        end
    end

    always_ff @(posedge clk) begin
        gap_2 <= gap_1 && !rst;
        kind_2 <= rst ? '0 : kind_1;
        value_2 <= value_1;
        before_2 <= before_s;
        total_2 <= rst ? '0 : sum;
    end

    // Stage 3: those of the words before. Only this sum goes from word to word.
    logic [C-1:0] cycles;

    always_ff @(posedge clk) begin
        cycles <= rst || gap_1 ? '0 : cycles + C'(total_2);
        gap_out <= gap_2 && !rst;
        kind <= rst ? '0 : kind_2;
        value <= value_2;
        for (int i = 0; i < LANES; i++) cycle[C*i+:C] <= cycles + C'(before_2[SUM*i+:SUM]);
    end

endmodule
