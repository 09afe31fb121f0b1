// So many words of delay.
//
//   WIDTH   bits
//   WORDS   words, 0 or more

module word_delay #(
    parameter int WIDTH = 1,
    parameter int WORDS = 1
) (
    input  logic             clk,
    input  logic             advance,  // a word comes in
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);

    generate
        if (WORDS == 0) begin : g_none
            assign out = in;
        end else if (WORDS == 1) begin : g_one
            logic [WIDTH-1:0] line;
            always_ff @(posedge clk) if (advance) line <= in;
            assign out = line;
        end else begin : g_more
            logic [WIDTH*WORDS-1:0] line;
            always_ff @(posedge clk) if (advance) line <= {line[WIDTH*(WORDS-1)-1:0], in};
            assign out = line[WIDTH*WORDS-1-:WIDTH];
        end
    endgenerate

endmodule
