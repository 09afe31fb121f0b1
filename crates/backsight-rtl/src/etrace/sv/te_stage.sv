// Two places between two stages, so that neither waits for the other within a cycle: `in_ready` is a register.
//
//   WIDTH   bits that are handed on

module te_stage #(
    parameter int WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out
);

    // The second place is for what comes in while the first is not free yet.
    logic [WIDTH-1:0] second;
    logic             takes, keeps;
    assign takes = !out_valid || out_ready;
    assign keeps = in_valid && in_ready && !takes;

    always_ff @(posedge clk) begin
        if (rst) begin
            in_ready <= 1'b1;
            out_valid <= 1'b0;
        end else begin
            in_ready <= takes || in_ready && !keeps;
            if (takes) out_valid <= in_valid || !in_ready;
        end
        if (in_ready) second <= in;
        if (takes) out <= in_ready ? in : second;
    end

endmodule
