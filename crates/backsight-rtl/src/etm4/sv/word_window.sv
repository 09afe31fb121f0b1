// A word with the words after it. The stages after it work on the oldest one, so many words later.
//
// Element 0 of the oldest word is in the lowest bits of `window`, and everything that came later above it; the newest word
// is the input itself.
//
//   WIDTH   bits of a word
//   WORDS   words of the window, 2 or more

module word_window #(
    parameter int WIDTH = 8,
    parameter int WORDS = 2
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic                   step,    // a word is at `in`
    input  logic [WIDTH-1:0]       in,
    output logic                   filled,  // `window` has all of its words; for cycles in which `step` is high
    output logic [WIDTH*WORDS-1:0] window
);

    localparam int OLDER = WORDS - 1;

    logic [WIDTH*OLDER-1:0] older;
    logic [OLDER-1:0]       there;
    assign window = {in, older};
    assign filled = step && there[OLDER-1];

    always_ff @(posedge clk) begin
        if (rst) there <= '0;
        else if (step) there <= OLDER'({there, 1'b1});
        if (step) older <= window[WIDTH*WORDS-1:WIDTH];
    end

endmodule
