// The last three addresses of an ETMv4/ETE stream: complete addresses for all packets of a word.
//
// An address packet brings some bits of an address and takes the others from one of the last three. The three are walked from lane to
// lane, two lanes a stage, without the state of the words before: each part of an address is either known, or "that part
// of the old address 0, 1 or 2". The old addresses come in at the end, so that only that choice goes from word to word.
//
//   LANES   bytes of a word, a power of two
//
// Latency: LANES / 2 + 2 words.

module etm4_history_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                advance,
    input  logic                restart,  // the addresses are 0 before lane 0
    input  logic [LANES-1:0]    push,     // the packet has an address
    input  logic [LANES-1:0]    forget,   // the packet makes all three 0
    input  logic [2*LANES-1:0]  from,     // which of the three the other bits are of
    input  logic [6*LANES-1:0]  take,     // parts that the packet brings: bits 7:0 and IS, 8, 15:9, 16, 31:17, 63:32
    input  logic [65*LANES-1:0] literal,  // IS in bit 64
    output logic [64*LANES-1:0] address,  // the newest after the packet of a lane
    output logic [LANES-1:0]    is
);

    localparam int STAGES = LANES / 2;
    localparam int ENTRY = 65 + 12;       // an address, and where its six parts are from
    localparam int INPUT = 2 + 12 + 65;
    localparam logic [1:0] KNOWN = 2'd3;

    function automatic [ENTRY-1:0] old_entry(input [1:0] which);
        old_entry = {{6{which}}, 65'b0};
    endfunction

    // All bits of an entry, with what was before the word.
    function automatic [64:0] resolved(input [ENTRY-1:0] entry, input [64:0] first, input [64:0] second,
                                       input [64:0] third);
        logic [64:0] low, high;   // the two bits that say where a part is from, for all of its bits
        low = {entry[65], {32{entry[75]}}, {15{entry[73]}}, entry[71], {7{entry[69]}}, entry[67], {8{entry[65]}}};
        high = {entry[66], {32{entry[76]}}, {15{entry[74]}}, entry[72], {7{entry[70]}}, entry[68], {8{entry[66]}}};
        resolved = (high & low & entry[64:0]) | (high & ~low & third) | (~high & low & second) | (~high & ~low & first);
    endfunction

    logic [3*ENTRY-1:0]     history [0:STAGES];  // the newest in the lowest bits
    logic [INPUT*LANES-1:0] inputs  [0:STAGES];
    logic [ENTRY*LANES-1:0] results [0:STAGES];
    assign history[0] = {old_entry(2'd2), old_entry(2'd1), old_entry(2'd0)};
    assign results[0] = '0;
    logic [INPUT*LANES-1:0] input_0;
    assign inputs[0] = input_0;

    // Where a part of the newest address is from: one of the three, or the packet.
    function automatic [1:0] source(input pushes, input forgets, input brings, input [1:0] other);
        if (forgets || (pushes && brings)) source = KNOWN;
        else source = pushes ? other : 2'd0;
    endfunction

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_input
            logic [11:0] part;
            for (genvar k = 0; k < 6; k++) begin : g_part
                assign part[2*k+:2] = source(push[i], forget[i], take[6*i+k], from[2*i+:2]);
            end
            always_ff @(posedge clk) begin
                if (advance) begin
                    input_0[INPUT*i+:INPUT] <= {push[i], forget[i], part, literal[65*i+:65]};
                    if (forget[i]) input_0[INPUT*i+:65] <= '0;
                end
            end
        end
        for (genvar s = 0; s < STAGES; s++) begin : g_stage
            logic [3*ENTRY-1:0]     history_q, walked, between;
            logic [INPUT*LANES-1:0] inputs_q;
            logic [ENTRY*LANES-1:0] results_q;
            logic [INPUT-1:0]       x, y;
            assign history[s+1] = history_q;
            assign inputs[s+1] = inputs_q;
            assign results[s+1] = results_q;
            assign x = inputs[s][INPUT*2*s+:INPUT];
            assign y = inputs[s][INPUT*(2*s+1)+:INPUT];
            etm4_history_step even (
                .push(x[78]), .forget(x[77]), .source(x[76:65]), .literal(x[64:0]),
                .in(history[s]), .out(between)
            );
            etm4_history_step odd (
                .push(y[78]), .forget(y[77]), .source(y[76:65]), .literal(y[64:0]),
                .in(between), .out(walked)
            );
            always_ff @(posedge clk) begin
                if (advance) begin
                    history_q <= walked;
                    inputs_q <= inputs[s];
                    results_q <= results[s];
                    results_q[ENTRY*2*s+:2*ENTRY] <= {walked[0+:ENTRY], between[0+:ENTRY]};
                end
            end
        end
    endgenerate

    // What was before the word.
    logic        restart_1;
    logic [64:0] first, second, third, first_s, second_s, third_s;
    word_delay #(.WIDTH(1), .WORDS(STAGES + 1)) restarts (.clk, .advance, .in(restart), .out(restart_1));
    assign first_s = restart_1 ? '0 : first;
    assign second_s = restart_1 ? '0 : second;
    assign third_s = restart_1 ? '0 : third;
    always_ff @(posedge clk) begin
        if (advance) begin
            first <= resolved(history[STAGES][0+:ENTRY], first_s, second_s, third_s);
            second <= resolved(history[STAGES][ENTRY+:ENTRY], first_s, second_s, third_s);
            third <= resolved(history[STAGES][2*ENTRY+:ENTRY], first_s, second_s, third_s);
        end
    end
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_out
            always_ff @(posedge clk)
                if (advance)
                    {is[i], address[64*i+:64]} <=
                        resolved(results[STAGES][ENTRY*i+:ENTRY], first_s, second_s, third_s);
        end
    endgenerate

endmodule
