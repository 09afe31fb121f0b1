// The last three addresses of an ETMv4/ETE stream: complete addresses for all packets of a word.
//
// An address packet brings some bits of an address and takes the others from one of the last three. The three are walked from
// lane to lane, two lanes a stage, without the state of the words before: each part of an address is either known, or "that part
// of the old address 0, 1 or 2". The old addresses come in at the end, so that only that choice goes from word to word.
//
//   LANES   bytes of a word, a power of two
//
// Of two lanes that are side by side at most one brings bits: a packet that does has a payload in the lane after it.
//
// Latency: LANES / 2 + 3 cycles.

module etm4_history_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                step,     // a word is at the inputs
    input  logic                restart,  // the addresses are 0 before lane 0
    input  logic [LANES-1:0]    push,     // the packet has an address
    input  logic [LANES-1:0]    forget,   // the packet makes all three 0
    input  logic [2*LANES-1:0]  from,     // which of the three the other bits are of
    input  logic [6*LANES-1:0]  take,     // parts that the packet brings: bits 7:0 and IS, 8, 15:9, 16, 31:17, 63:32
    input  logic [LANES-1:0]    is1,      // how the packet brings them: IS,
    input  logic [LANES-1:0]    long_one, // bit 16 is of the third byte, not of the second
    input  logic [LANES-1:0]    long64,   // bits 63:32 are in the packet; else they are 0
    input  logic [LANES-1:0]    zero,     // all are 0
    input  logic [8*(LANES+8)-1:0] bytes, // from the byte after lane 0 to the eighth after the last lane
    output logic [64*LANES-1:0] address,  // the newest after the packet of a lane
    output logic [LANES-1:0]    is
);

    localparam int STAGES = LANES / 2;
    localparam int ENTRY = 65 + 12;       // an address, and where its six parts are from
    localparam int CONTROL = 2 + 12;
    localparam int PAIR = 5;
    localparam int BYTES = 8 * (LANES + 8);
    localparam logic [1:0] KNOWN = 2'd3;

    // One of the three before the word: the old one, or 0 after a restart.
    function automatic [ENTRY-1:0] old_entry(input [1:0] which, input is_zero);
        old_entry = {{6{is_zero ? KNOWN : which}}, 65'b0};
    endfunction

    // All bits of an entry, with what was before the word.
    function automatic [64:0] resolved(input [ENTRY-1:0] entry, input [64:0] first, input [64:0] second,
                                       input [64:0] third);
        logic [64:0] low, high;   // the two bits that say where a part is from, for all of its bits
        low = {entry[65], {32{entry[75]}}, {15{entry[73]}}, entry[71], {7{entry[69]}}, entry[67], {8{entry[65]}}};
        high = {entry[66], {32{entry[76]}}, {15{entry[74]}}, entry[72], {7{entry[70]}}, entry[68], {8{entry[66]}}};
        resolved = (high & low & entry[64:0]) | (high & ~low & third) | (~high & low & second) | (~high & ~low & first);
    endfunction

    // Where a part of the newest address is from: one of the three, or the packet.
    function automatic [1:0] source(input pushes, input forgets, input brings, input [1:0] other);
        if (forgets || (pushes && brings)) source = KNOWN;
        else source = pushes ? other : 2'd0;
    endfunction

    // The bits that one of two lanes brings, IS in bit 64.
    function automatic [64:0] brings(input [PAIR-1:0] pair, input [71:0] b);
        logic        p_odd, p_is1, p_long, p_long64, p_zero;
        logic [63:0] raw;
        {p_odd, p_is1, p_long, p_long64, p_zero} = pair;
        raw = p_odd ? b[71:8] : b[63:0];
        brings = {p_is1, etm4_pkg::literal(raw, p_is1)};
        if (!p_long) brings[16] = raw[15];
        if (!p_long64) brings[63:32] = '0;
        if (p_zero) brings = '0;
    endfunction

    // What comes in; then stage s walks over lanes 2s and 2s + 1, whose bits are formed one cycle before.
    logic [3*ENTRY-1:0]       history  [0:STAGES];  // the newest in the lowest bits
    logic [ENTRY*LANES-1:0]   results;              // the newest after each lane, when all lanes have been walked over
    logic [CONTROL*LANES-1:0] controls [0:STAGES];
    logic [PAIR*STAGES-1:0]   pairs    [0:STAGES];
    logic [BYTES-1:0]         later    [0:STAGES];
    logic                     restart_1;
    delay #(.WIDTH(1), .CYCLES(2)) restarts (.clk, .in(restart), .out(restart_1));
    assign history[0] = {old_entry(2'd2, restart_1), old_entry(2'd1, restart_1), old_entry(2'd0, restart_1)};
    logic [CONTROL*LANES-1:0] control_0;
    logic [PAIR*STAGES-1:0]   pair_0;
    logic [BYTES-1:0]         bytes_0;
    assign controls[0] = control_0;
    assign pairs[0] = pair_0;
    assign later[0] = bytes_0;

    always_ff @(posedge clk) bytes_0 <= bytes;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_control
            logic [11:0] part;
            for (genvar k = 0; k < 6; k++) begin : g_part
                assign part[2*k+:2] = source(push[i], forget[i], take[6*i+k], from[2*i+:2]);
            end
            always_ff @(posedge clk) control_0[CONTROL*i+:CONTROL] <= {push[i], forget[i], part};
        end
        for (genvar s = 0; s < STAGES; s++) begin : g_pair
            logic odd;
            assign odd = push[2*s+1] || forget[2*s+1];
            always_ff @(posedge clk)
                pair_0[PAIR*s+:PAIR] <= {odd, odd ? is1[2*s+1] : is1[2*s], odd ? long_one[2*s+1] : long_one[2*s],
                                         odd ? long64[2*s+1] : long64[2*s], odd ? zero[2*s+1] : zero[2*s]};
        end
        for (genvar s = 0; s < STAGES; s++) begin : g_stage
            logic [3*ENTRY-1:0]       history_q, walked, between;
            logic [ENTRY-1:0]         between_q;
            logic [CONTROL*LANES-1:0] controls_q;
            logic [PAIR*STAGES-1:0]   pairs_q;
            logic [BYTES-1:0]         later_q;
            logic [CONTROL-1:0]       x, y;
            logic [64:0]              brought;
            assign history[s+1] = history_q;
            assign controls[s+1] = controls_q;
            assign pairs[s+1] = pairs_q;
            assign later[s+1] = later_q;
            assign x = controls_q[CONTROL*2*s+:CONTROL];
            assign y = controls_q[CONTROL*(2*s+1)+:CONTROL];
            etm4_history_step even (
                .push(x[13]), .forget(x[12]), .source(x[11:0]), .literal(brought), .in(history[s]), .out(between)
            );
            etm4_history_step odd (
                .push(y[13]), .forget(y[12]), .source(y[11:0]), .literal(brought), .in(between), .out(walked)
            );
            always_ff @(posedge clk) begin
                brought <= brings(pairs[s][PAIR*s+:PAIR], later[s][16*s+:72]);
                controls_q <= controls[s];
                pairs_q <= pairs[s];
                later_q <= later[s];
                history_q <= walked;
                between_q <= between[0+:ENTRY];
            end
            // The first lanes wait longest.
            localparam int WAITS = STAGES - 1 - s;
            logic [2*ENTRY-1:0] pair_q;
            assign pair_q = {history_q[0+:ENTRY], between_q};
            if (WAITS < 3) begin : g_soon
                delay #(.WIDTH(2 * ENTRY), .CYCLES(WAITS)) until_walked (
                    .clk, .in(pair_q), .out(results[ENTRY*2*s+:2*ENTRY])
                );
            end else begin : g_later
                block_delay #(.WIDTH(2 * ENTRY), .CYCLES(WAITS)) until_walked (
                    .clk, .rst, .in(pair_q), .out(results[ENTRY*2*s+:2*ENTRY])
                );
            end
        end
    endgenerate

    // What was before the word.
    localparam int LAST = STAGES + 2;
    logic [LAST:0] at;
    logic [64:0]   first, second, third;
    steps #(.CYCLES(LAST)) stages (.clk, .rst, .step, .at);
    always_ff @(posedge clk) begin
        if (at[LAST]) begin
            first <= resolved(history[STAGES][0+:ENTRY], first, second, third);
            second <= resolved(history[STAGES][ENTRY+:ENTRY], first, second, third);
            third <= resolved(history[STAGES][2*ENTRY+:ENTRY], first, second, third);
        end
    end
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_out
            always_ff @(posedge clk)
                {is[i], address[64*i+:64]} <= resolved(results[ENTRY*i+:ENTRY], first, second, third);
        end
    endgenerate

endmodule
