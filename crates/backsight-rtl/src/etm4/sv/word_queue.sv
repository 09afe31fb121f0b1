// Words that wait until the stage that needs them has come as far: the first that came in is the first to go out.
//
// Both ends move with the same words, so that there is always a word when one is taken. A wide word waits in pieces that count
// for themselves, so that no counter has to reach memories all over the device.
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
    localparam int PIECE = 64;

    generate
        for (genvar p = 0; p < WIDTH; p = p + PIECE) begin : g_piece
            localparam int BITS = WIDTH - p < PIECE ? WIDTH - p : PIECE;
            (* ram_style = "distributed" *) logic [BITS-1:0] words [0:DEPTH-1];
            logic [BITS-1:0]    read;
            logic [ADDRESS-1:0] newest, oldest;
            assign out[p+:BITS] = read;
            always_ff @(posedge clk) begin
                if (rst) begin
                    newest <= '0;
                    oldest <= '0;
                end else begin
                    if (put) newest <= newest + 1'b1;
                    if (take) oldest <= oldest + 1'b1;
                end
                if (put) words[newest] <= in[p+:BITS];
                read <= words[oldest];
            end
        end
    endgenerate

endmodule
