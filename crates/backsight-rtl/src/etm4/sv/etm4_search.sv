// The first Async of a word: eleven zero bytes, which may begin in the words earlier, and 0x80.
//
// Only needed while the stream is not synchronised; zeros before a gap do not count.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: three cycles.

module etm4_search #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               step,    // a word is at the inputs
    input  logic               restart, // bytes are missing before lane 0
    input  logic [LANES-1:0]   keep,
    input  logic [8*LANES-1:0] data,
    output logic               found,
    output logic [4:0]         after    // the lane after it
);

    // zeros[k]: the words before ended with k zero bytes, or more.
    logic [11:0] zeros, earlier, later;
    logic [LANES-1:0] is_zero, ends, ends_1;
    assign earlier = restart_1 ? 12'h001 : zeros;

    logic             step_1, restart_1;
    logic [LANES-1:0] is_last;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_zero
            always_ff @(posedge clk) begin
                is_zero[i] <= keep[i] && data[8*i+:8] == 8'h00;
                is_last[i] <= keep[i] && data[8*i+:8] == 8'h80;
            end
        end
        for (genvar i = 0; i < LANES; i++) begin : g_end
            if (i >= 11) begin : g_inside
                assign ends[i] = is_last[i] && &is_zero[i-11+:11];
            end else if (i > 0) begin : g_across
                assign ends[i] = is_last[i] && earlier[11-i] && &is_zero[0+:i];
            end else begin : g_first
                assign ends[i] = is_last[i] && earlier[11];
            end
        end
        assign later[0] = 1'b1;
        for (genvar k = 1; k < 12; k++) begin : g_after
            if (k <= LANES) begin : g_inside
                assign later[k] = &is_zero[LANES-1-:k];
            end else begin : g_across
                assign later[k] = earlier[k-LANES] && &is_zero;
            end
        end
    endgenerate

    logic [4:0] first;
    always_comb begin
        first = 5'd0;
        for (int i = LANES - 1; i >= 0; i--) if (ends_1[i]) first = 5'(i + 1);
    end

    always_ff @(posedge clk) begin
        step_1 <= step && !rst;
        restart_1 <= restart;
        if (step_1) zeros <= later;
        ends_1 <= ends;
        found <= |ends_1;
        after <= first;
    end

endmodule
