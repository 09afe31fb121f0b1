// How many bytes there are from the first of a word up to the next gap, as far as a packet can reach.
//
// A packet that is longer is cut off.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: etm4_prefix_pkg::ROOM words.

module etm4_room #(
    parameter int LANES = 8
) (
    input  logic             clk,
    input  logic             advance,
    input  logic             restart, // bytes are missing before lane 0
    input  logic [LANES-1:0] keep,   // from lane 0 on, without holes
    output logic [6:0]       room
);

    localparam int WORDS = (30 + LANES - 1) / LANES + 1;
    localparam int WIDTH = LANES + 1;

    logic [WIDTH*WORDS-1:0] words;
    word_window #(.WIDTH(WIDTH), .WORDS(WORDS)) window_of_words (.clk, .advance, .in({restart, keep}), .window(words));

    logic [6:0] sum;
    logic       open;
    always_comb begin
        sum = 7'd0;
        open = 1'b1;
        for (int k = 0; k < WORDS; k++) begin
            if (k > 0 && words[WIDTH*k+LANES]) open = 1'b0;
            for (int i = 0; i < LANES; i++) begin
                if (open && words[WIDTH*k+i]) sum = 7'(LANES * k + i + 1);
            end
            if (!words[WIDTH*k+LANES-1]) open = 1'b0;
        end
    end

    always_ff @(posedge clk) if (advance) room <= sum;

endmodule
