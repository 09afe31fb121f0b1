// Outcomes of branches that no packet has reported yet, the oldest in bit 0: 1 is not taken.
//
// `now` includes the branch of this step. 31 outcomes fill the map.

module te_branch_map (
    input  logic        clk,
    input  logic        rst,
    input  logic        push,
    input  logic        not_taken,
    input  logic        step,           // the step ends: keep what is there now
    input  logic        clear,          // a packet has reported it
    output logic [30:0] now,
    output logic [4:0]  count,
    output logic        full
);

    logic [30:0] outcomes;
    logic [4:0]  kept;

    assign now = outcomes | (31'(push && not_taken) << kept);
    assign count = kept + 5'(push);
    assign full = count == 5'd31;

    always_ff @(posedge clk) begin
        if (rst || clear) begin
            outcomes <= '0;
            kept <= '0;
        end else if (step) begin
            outcomes <= now;
            kept <= count;
        end
    end

endmodule
