// Outcomes of branches that no packet has reported yet, the oldest in bit 0: 1 is not taken.
//
// The outcome of a block is there from the cycle on that pushes it; `forget` drops those before it.

module te_branch_map_cva6 (
    input  logic        clk,
    input  logic        rst,
    input  logic        push,
    input  logic        not_taken,
    input  logic        forget,
    input  logic        clear,
    output logic [4:0]  earlier,        // outcomes that wait, without that of this cycle
    output logic [30:0] now,
    output logic [4:0]  count,
    output logic        full
);

    logic [30:0] outcomes;
    logic [4:0]  kept;

    assign now = (forget ? '0 : outcomes) | (31'(push && not_taken) << (forget ? 5'd0 : kept));
    assign count = (forget ? 5'd0 : kept) + 5'(push);
    assign earlier = kept;
    assign full = count == 5'd31;

    always_ff @(posedge clk) begin
        if (rst || clear) begin
            outcomes <= '0;
            kept <= '0;
        end else begin
            outcomes <= now;
            kept <= count;
        end
    end

endmodule
