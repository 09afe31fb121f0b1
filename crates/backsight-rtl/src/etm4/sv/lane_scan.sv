// One bit of state that lanes set: what it is before each lane.
//
//   LANES   lanes, a power of two, 2 or more
//
// Latency: log2(LANES) / 2, rounded up, and two cycles.

module lane_scan #(
    parameter int LANES = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             step,     // a word is at the inputs
    input  logic             restart,  // the bit is 0 before lane 0
    input  logic [LANES-1:0] set,      // the lane sets the bit …
    input  logic [LANES-1:0] value,    // … to this
    output logic [LANES-1:0] prior
);

    localparam int LEVELS = $clog2(LANES);
    localparam int STAGES = (LEVELS + 1) / 2;

    // After each level, `set` and `value` are those of twice as many lanes up to this one; two levels a stage.
    logic [LANES-1:0] sets   [0:STAGES];
    logic [LANES-1:0] values [0:STAGES];
    logic             restart_1, bit_q, bit_s;
    logic [LANES-1:0] set_0, value_0;
    assign sets[0] = set_0;
    assign values[0] = value_0;
    always_ff @(posedge clk) begin
        set_0 <= set;
        value_0 <= value;
    end

    generate
        for (genvar s = 0; s < STAGES; s++) begin : g_stage
            logic [LANES-1:0] sets_in, values_in, sets_s, values_s, sets_q, values_q;
            assign sets_in = sets[s];
            assign values_in = values[s];
            always_comb begin
                sets_s = sets_in;
                values_s = values_in;
                for (int l = 2 * s; l < 2 * s + 2; l++) begin
                    if (l < LEVELS) begin
                        values_s = (sets_s & values_s) | (~sets_s & (values_s << (1 << l)));
                        sets_s = sets_s | (sets_s << (1 << l));
                    end
                end
            end
            always_ff @(posedge clk) begin
                sets_q <= sets_s;
                values_q <= values_s;
            end
            assign sets[s+1] = sets_q;
            assign values[s+1] = values_q;
        end
    endgenerate
    logic [LANES-1:0] sets_all, values_all;
    assign sets_all = sets[STAGES];
    assign values_all = values[STAGES];
    logic [STAGES+1:0] at;
    steps #(.CYCLES(STAGES + 1)) stages (.clk, .rst, .step, .at);
    delay #(.WIDTH(1), .CYCLES(STAGES + 1)) restarts (.clk, .in(restart), .out(restart_1));

    assign bit_s = !restart_1 && bit_q;
    always_ff @(posedge clk) begin
        if (at[STAGES+1]) bit_q <= sets_all[LANES-1] ? values_all[LANES-1] : bit_s;
        prior <= LANES'({(sets_all & values_all) | (~sets_all & {LANES{bit_s}}), bit_s});
    end

endmodule
