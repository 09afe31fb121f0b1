// When a word is at each of the stages of a pipeline.
//
//   CYCLES   stages, 1 or more

module steps #(
    parameter int CYCLES = 1
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              step,   // a word is at the first stage
    output logic [CYCLES:0]   at      // at[k]: a word is at the stage k cycles after it
);

    logic [CYCLES-1:0] line;
    assign at = {line, step};

    always_ff @(posedge clk) line <= rst ? '0 : at[CYCLES-1:0];

endmodule
