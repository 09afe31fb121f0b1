// Where packets begin: the parallel-prefix form against the chain, for every stream of so many words after an Async.
//
// The bytes are chosen freely in the first cycle and stay as they are. The chain takes all of them in one cycle; the
// parallel-prefix form takes them word by word, after words that hold the Async.

module boundaries #(
    parameter int LANES = 8,
    parameter int WORDS = 1
) (
    input  logic                     clk,
    input  logic [8*LANES*WORDS-1:0] any,
    output logic                     wrong
);

    localparam int BYTES = LANES * WORDS;
    localparam int LEAD = (12 + LANES - 1) / LANES * LANES;  // bytes of the words that end with the Async
    localparam logic [8*LEAD-1:0] ASYNC = (8 * LEAD)'(8'h80) << (8 * (LEAD - 1));

    // Time, and the bytes.
    logic [6:0]         now;
    logic [8*BYTES-1:0] bytes;
    initial now = '0;
    always_ff @(posedge clk) begin
        now <= now + 7'(now != '1);
        if (now == '0) bytes <= any;
    end
    logic rst;
    assign rst = now < 7'd2;

    // The chain: all in the cycle in which the reset ends.
    localparam int ALL = LEAD + BYTES;
    logic [ALL-1:0]                  header;
    logic [8*ALL-1:0]                data;
    logic [ALL*etm4_pkg::ENTRY-1:0]  entry;
    assign data = {bytes, ASYNC};
    generate
        for (genvar i = 0; i < ALL; i++) begin : g_entry
            etm4_header header_of (.data(data[8*i+:8]), .entry(entry[etm4_pkg::ENTRY*i+:etm4_pkg::ENTRY]));
        end
    endgenerate
    // verilator lint_off PINMISSING
    etm4_stream_chain #(.LANES(ALL)) chain (
        .clk, .rst, .gap_next(1'b0), .gap(1'b0), .keep({ALL{now == 7'd2}}), .data, .entry, .header
    );
    // verilator lint_on PINMISSING
    logic [BYTES-1:0] expected;
    always_ff @(posedge clk) if (now == 7'd3) expected <= header[ALL-1-:BYTES];

    // The parallel-prefix form: a word in every cycle, zeros after the last.
    logic               step, restart, next, found, l_step, s_next;
    logic [2:0]         f_step;
    logic [4:0]         after, l_after;
    logic               l_found, l_restart;
    logic [5*LANES-1:0] length;
    logic [8*LANES-1:0] word;
    logic [LANES-1:0]   begins;
    assign step = now >= 7'd2;
    assign restart = now == 7'd2;
    assign word = (8 * LANES)'({bytes, ASYNC} >> (8 * LANES * (now - 7'd2)));
    etm4_lengths #(.LANES(LANES)) lengths (.clk, .rst, .step, .data(word), .next, .length, .first(), .why());
    etm4_search #(.LANES(LANES)) search (.clk, .rst, .step, .restart, .keep({LANES{1'b1}}), .data(word), .found, .after);
    word_queue #(.WIDTH(1)) restarts (.clk, .rst, .put(step), .in(restart), .take(next), .out(l_restart));
    word_queue #(.WIDTH(6)) searched (
        .clk, .rst, .put(f_step[2]), .in({found, after}), .take(next), .out({l_found, l_after})
    );
    always_ff @(posedge clk) begin
        f_step <= rst ? '0 : {f_step[1:0], step};
        l_step <= next && !rst;
    end
    etm4_stream_prefix #(.LANES(LANES)) stream (
        .clk, .rst, .step(l_step), .gap(1'b0), .restart(l_restart), .keep({LANES{1'b1}}), .length, .found(l_found), .after(l_after),
        .next(s_next), .header(begins), .async(), .restart_out(), .gap_out(), .cut(), .keep_out()
    );

    // Word by word.
    logic       s_step;
    logic [4:0] index;
    initial index = '0;
    initial wrong = 1'b0;
    always_ff @(posedge clk) begin
        s_step <= s_next && !rst;
        if (s_step && !rst) begin
            index <= index + 5'(index != '1);
            for (int k = 0; k < WORDS; k++)
                if (index == 5'(k + LEAD / LANES) && begins != expected[LANES*k+:LANES]) wrong <= 1'b1;
        end
    end

endmodule
