// How many bytes there are from the first of a word up to the next gap, as far as a packet can reach.
//
// A packet that is longer is cut off.
//
//   LANES   bytes of a word, 8 or 16
//
// It comes out when the words are there in which its packets can reach.

module etm4_room #(
    parameter int LANES = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             step,    // a word is at the inputs
    input  logic             restart, // bytes are missing before lane 0
    input  logic [LANES-1:0] keep,    // from lane 0 on, without holes
    output logic             ready,   // `room` is that of a word
    output logic [6:0]       room
);

    localparam int WORDS = (30 + LANES - 1) / LANES + 1;
    localparam int COUNT = $clog2(LANES) + 1;
    localparam int WIDTH = COUNT + 2;

    // What is needed of each word: does it continue the one before, is it full, how many bytes has it?
    logic [WIDTH-1:0] word;
    logic [COUNT-1:0] count;
    always_comb begin
        count = '0;
        for (int i = 0; i < LANES; i++) if (keep[i]) count = COUNT'(i + 1);
    end
    always_ff @(posedge clk) word <= {!restart, keep[LANES-1], count};

    logic [WIDTH*WORDS-1:0] words;
    logic                   step_1, filled;
    always_ff @(posedge clk) step_1 <= step && !rst;
    word_window #(.WIDTH(WIDTH), .WORDS(WORDS)) window_of_words (
        .clk, .rst, .step(step_1), .in(word), .filled, .window(words)
    );

    // The bytes of a word count if all words before it are full, and none but the first begins after a gap.
    logic [6:0] sum;
    logic       open;
    always_comb begin
        sum = 7'(words[0+:COUNT]);
        open = words[COUNT];
        for (int k = 1; k < WORDS; k++) begin
            open = open && words[WIDTH*k+COUNT+1];
            if (open) sum = 7'(LANES * k) + 7'(words[WIDTH*k+:COUNT]);
            open = open && words[WIDTH*k+COUNT];
        end
    end

    always_ff @(posedge clk) begin
        ready <= filled && !rst;
        room <= sum;
    end

endmodule
