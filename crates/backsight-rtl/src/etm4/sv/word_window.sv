// A word with the words after it.
//
// Element 0 of the oldest word is in the lowest bits of `window`, and everything that came later above it.
//
//   WIDTH   bits of a word
//   WORDS   words of the window, 2 or more
//
// Latency: a word is the oldest of the window WORDS words after it came in.

module word_window #(
    parameter int WIDTH = 8,
    parameter int WORDS = 2
) (
    input  logic                   clk,
    input  logic                   advance,
    input  logic [WIDTH-1:0]       in,
    output logic [WIDTH*WORDS-1:0] window
);

    always_ff @(posedge clk) if (advance) window <= {in, window[WIDTH*WORDS-1:WIDTH]};

endmodule
