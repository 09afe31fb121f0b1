// A register of several parts that lanes write: what it holds after each lane.
//
// Four lanes a stage; what the words before left in the register comes in at the end.
//
//   LANES   lanes, a multiple of four
//   PARTS   parts of the register
//   BITS    bits of a part
//
// Latency: LANES / 4 + 1 cycles.

module register_walk #(
    parameter int LANES = 8,
    parameter int PARTS = 5,
    parameter int BITS = 7
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic                        step,     // a word is at the inputs
    input  logic                        restart,  // the register is 0 before lane 0
    input  logic [LANES-1:0]            clear,    // all is 0 from this lane on …
    input  logic [PARTS*LANES-1:0]      write,    // … but this part is
    input  logic [PARTS*BITS*LANES-1:0] data,     // that
    output logic [PARTS*BITS*LANES-1:0] out
);

    localparam int STAGES = LANES / 4;
    localparam int WIDTH = PARTS * BITS;

    logic [LANES-1:0]       clears [0:STAGES];
    logic [PARTS*LANES-1:0] writes [0:STAGES];
    logic [WIDTH*LANES-1:0] values [0:STAGES];  // first what lanes write, then what the register holds
    logic [PARTS*LANES-1:0] known  [0:STAGES];  // parts that this word has written
    assign clears[0] = clear;
    assign writes[0] = write;
    assign values[0] = data;
    assign known[0] = '0;

    generate
        for (genvar s = 0; s < STAGES; s++) begin : g_stage
            logic [LANES-1:0]       clears_q;
            logic [PARTS*LANES-1:0] known_q, writes_q;
            logic [WIDTH*LANES-1:0] values_q;
            assign clears[s+1] = clears_q;
            assign writes[s+1] = writes_q;
            assign values[s+1] = values_q;
            assign known[s+1] = known_q;
            // What the lane before left; then the four lanes.
            logic [3:0]         clears_4;
            logic [4*PARTS-1:0] writes_4, known_4;
            logic [4*WIDTH-1:0] values_4, walked;
            logic [PARTS-1:0]   k, k_first;
            logic [WIDTH-1:0]   v, v_first;
            assign clears_4 = clears[s][4*s+:4];
            assign writes_4 = writes[s][4*PARTS*s+:4*PARTS];
            assign values_4 = values[s][4*WIDTH*s+:4*WIDTH];
            if (s == 0) begin : g_first
                assign k_first = {PARTS{restart}};
                assign v_first = '0;
            end else begin : g_after
                assign k_first = known[s][PARTS*(4*s-1)+:PARTS];
                assign v_first = values[s][WIDTH*(4*s-1)+:WIDTH];
            end
            always_comb begin
                k = k_first;
                v = v_first;
                for (int i = 0; i < 4; i++) begin
                    if (clears_4[i]) begin
                        k = '1;
                        v = '0;
                    end
                    for (int p = 0; p < PARTS; p++) begin
                        if (writes_4[PARTS*i+p]) begin
                            k[p] = 1'b1;
                            v[BITS*p+:BITS] = values_4[WIDTH*i+BITS*p+:BITS];
                        end
                    end
                    known_4[PARTS*i+:PARTS] = k;
                    walked[WIDTH*i+:WIDTH] = v;
                end
            end
            always_ff @(posedge clk) begin
                clears_q <= clears[s];
                writes_q <= writes[s];
                values_q <= values[s];
                values_q[4*WIDTH*s+:4*WIDTH] <= walked;
                known_q <= known[s];
                known_q[4*PARTS*s+:4*PARTS] <= known_4;
            end
        end
    endgenerate

    // What the words before left.
    logic [WIDTH-1:0] held;
    logic [STAGES:0]  at;
    steps #(.CYCLES(STAGES)) stages (.clk, .rst, .step, .at);

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_out
            for (genvar p = 0; p < PARTS; p++) begin : g_part
                always_ff @(posedge clk)
                    out[WIDTH*i+BITS*p+:BITS] <= known[STAGES][PARTS*i+p] ? values[STAGES][WIDTH*i+BITS*p+:BITS]
                                                                        : held[BITS*p+:BITS];
            end
        end
        for (genvar p = 0; p < PARTS; p++) begin : g_held
            always_ff @(posedge clk) begin
                if (at[STAGES])
                    held[BITS*p+:BITS] <= known[STAGES][PARTS*(LANES-1)+p]
                        ? values[STAGES][WIDTH*(LANES-1)+BITS*p+:BITS] : held[BITS*p+:BITS];
            end
        end
    endgenerate

endmodule
