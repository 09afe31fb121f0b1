// Words that wait until the stage that needs them has come as far: the first that came in is the first to go out.
//
// Both ends move with the same words, so that there is always a word when one is taken.
//
//   WIDTH   bits of a word
//   DEPTH   words that wait at most, a power of two

module word_queue #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 32
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             put,   // a word is at `in`
    input  logic [WIDTH-1:0] in,
    input  logic             take,  // the next word is at `out` in the cycle after
    output logic [WIDTH-1:0] out
);

    localparam int ADDRESS = $clog2(DEPTH);

    (* ram_style = "distributed" *) logic [WIDTH-1:0] words [0:DEPTH-1];
    logic [ADDRESS-1:0] newest, oldest;

    always_ff @(posedge clk) begin
        if (rst) begin
            newest <= '0;
            oldest <= '0;
        end else begin
            if (put) newest <= newest + 1'b1;
            if (take) oldest <= oldest + 1'b1;
        end
        if (put) words[newest] <= in;
        out <= words[oldest];
    end

endmodule
