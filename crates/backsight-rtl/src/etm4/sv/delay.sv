// So many cycles of delay, in registers. None if CYCLES is 0.

module delay #(
    parameter int WIDTH = 1,
    parameter int CYCLES = 1
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);

    generate
        if (CYCLES == 0) begin : g_none
            assign out = in;
        end else if (CYCLES == 1) begin : g_one
            always_ff @(posedge clk) out <= in;
        end else begin : g_more
            logic [WIDTH*CYCLES-1:0] line;
            assign out = line[WIDTH*CYCLES-1-:WIDTH];
            always_ff @(posedge clk) line <= {line[WIDTH*(CYCLES-1)-1:0], in};
        end
    endgenerate

endmodule
