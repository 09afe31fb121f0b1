// The word that came so many words before: `out` is meant for cycles in which `step` is high.
//
//   WIDTH   bits
//   WORDS   words, 1 or more

module word_delay #(
    parameter int WIDTH = 1,
    parameter int WORDS = 1
) (
    input  logic             clk,
    input  logic             step,  // a word is at `in`
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);

    logic [WIDTH*WORDS-1:0] line;
    assign out = line[WIDTH*WORDS-1-:WIDTH];

    always_ff @(posedge clk) if (step) line <= (WIDTH * WORDS)'({line, in});

endmodule
