// So many cycles of delay.

module delay #(
    parameter int WIDTH = 1,
    parameter int CYCLES = 1
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);

    logic [WIDTH*CYCLES-1:0] line;

    generate
        if (CYCLES == 1) begin : g_one
            always_ff @(posedge clk) line <= in;
        end else begin : g_more
            always_ff @(posedge clk) line <= {line[WIDTH*(CYCLES-1)-1:0], in};
        end
    endgenerate

    assign out = line[WIDTH*CYCLES-1-:WIDTH];

endmodule
