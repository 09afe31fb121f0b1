// So many words of delay, for bits that say that there is something: reset clears them.
//
//   WIDTH   bits
//   WORDS   words, 1 or more

module valid_delay #(
    parameter int WIDTH = 1,
    parameter int WORDS = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             advance,
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);

    logic [WIDTH*WORDS-1:0] line;
    assign out = line[WIDTH*WORDS-1-:WIDTH];

    always_ff @(posedge clk) begin
        if (rst) line <= '0;
        else if (advance) line <= (WIDTH * WORDS)'({line, in});
    end

endmodule
