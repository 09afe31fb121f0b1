// What ETMv4/ETE packets say with what came before: complete addresses and timestamps, the cycle count threshold.
//
// The same as etm4_state_chain, for packets at the lanes of their headers.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency of all outputs: etm4_prefix_pkg::STATE words.

module etm4_state_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                advance,
    input  logic                restart,
    input  logic [LANES-1:0]    good,       // a packet begins here that is not bad
    input  logic [8*LANES-1:0]  bytes,
    input  logic [LANES*etm4_pkg::MEANING-1:0] meaning,
    input  logic [72*LANES-1:0] after,      // the nine bytes after the header
    input  logic [4*LANES-1:0]  stamped,    // bytes of a timestamp
    input  logic [LANES-1:0]    sf,
    output logic [64*LANES-1:0] address,    // the newest address after the packet of a lane
    output logic [LANES-1:0]    is,
    output logic [64*LANES-1:0] timestamp,
    output logic [32*LANES-1:0] threshold   // after the byte of a lane
);

    localparam int MEANING = etm4_pkg::MEANING;
    localparam int SCAN = etm4_prefix_pkg::scan_words(LANES);
    localparam int STATE = etm4_prefix_pkg::state_words(LANES);
    localparam int HISTORY = LANES / 2 + 2;

    // Is the processor in AArch64 state before each packet?
    logic [LANES-1:0] context_set, wide;
    logic [LANES-1:0] trace_info;
    logic [8*LANES-1:0] control;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_context
            assign context_set[i] = good[i] && meaning[MEANING*i+etm4_pkg::M_CONTEXT];
            assign trace_info[i] = good[i] && meaning[MEANING*i+etm4_pkg::M_TRACE_INFO];
            assign control[8*i+:8] = after[72*i+:8];
        end
    endgenerate
    lane_scan #(.LANES(LANES)) state_of_processor (.clk, .advance, .restart, .set(context_set), .value(sf), .prior(wide));

    // Addresses: the bits that packets bring.
    logic [LANES-1:0]    push, forget;
    logic [2*LANES-1:0]  from;
    logic [6*LANES-1:0]  take;
    logic [65*LANES-1:0] literal;
    logic [LANES-1:0]    push_1, forget_1, upper_1;
    logic [2*LANES-1:0]  from_1;
    logic [6*LANES-1:0]  take_1, take_2;
    logic [65*LANES-1:0] literal_1;
    logic [LANES-1:0]    upper;   // bits 63:32 are 0 in AArch32 state
    logic                restart_1;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_address
            logic [MEANING-1:0] m;
            logic [71:0]        w;
            logic               short_one, second;
            logic [63:0]        l;
            assign m = meaning[MEANING*i+:MEANING];
            assign w = after[72*i+:72];
            assign short_one = !m[etm4_pkg::M_EXACT];
            assign second = w[7];  // a short address has a second byte
            assign l = etm4_pkg::literal(w[63:0], m[etm4_pkg::M_IS1]);
            assign push[i] = good[i] && (m[etm4_pkg::M_PUSH]
                || etm4_pkg::has_no_address(m[etm4_pkg::M_EXCEPTION], w[7:0]));
            assign forget[i] = trace_info[i];
            assign from[2*i+:2] = {m[etm4_pkg::M_EXACT2], m[etm4_pkg::M_EXACT1]};
            assign take[6*i+:6] = m[etm4_pkg::M_LONG] ? {m[etm4_pkg::M_LONG64], 5'h1F}
                : {1'b0, 1'b0, short_one && second && !m[etm4_pkg::M_IS1], short_one && second,
                   short_one && (second || !m[etm4_pkg::M_IS1]), short_one};
            assign upper[i] = m[etm4_pkg::M_LONG] && !m[etm4_pkg::M_LONG64];
            // PE Reset and Transaction Failure push address 0. Bit 16 of a short address is the highest of its second byte.
            assign literal[65*i+:65] = m[etm4_pkg::M_EXCEPTION] ? 65'b0
                : {m[etm4_pkg::M_IS1], upper_half(l[63:32], m[etm4_pkg::M_LONG64]), l[31:17],
                   m[etm4_pkg::M_LONG] ? l[16] : w[15], l[15:0]};
            assign take_2[6*i+:6] = take_1[6*i+:6] | {upper_1[i] && !wide[i], 5'b0};
        end
    endgenerate

    function automatic [31:0] upper_half(input [31:0] bits, input is_there);
        upper_half = is_there ? bits : 32'b0;
    endfunction

    word_delay #(.WIDTH(76 * LANES + 1), .WORDS(SCAN)) until_scanned (
        .clk, .advance,
        .in({restart, push, forget, upper, from, take, literal}),
        .out({restart_1, push_1, forget_1, upper_1, from_1, take_1, literal_1})
    );

    logic [64*LANES-1:0] address_2;
    logic [LANES-1:0]    is_2;
    etm4_history_prefix #(.LANES(LANES)) last_three (
        .clk, .advance, .restart(restart_1), .push(push_1), .forget(forget_1), .from(from_1), .take(take_2),
        .literal(literal_1), .address(address_2), .is(is_2)
    );
    word_delay #(.WIDTH(65 * LANES), .WORDS(STATE - SCAN - HISTORY)) addresses (
        .clk, .advance, .in({is_2, address_2}), .out({is, address})
    );

    // Timestamps: seven bits a byte, eight in the ninth.
    logic [9*LANES-1:0]  stamp_write;
    logic [72*LANES-1:0] stamp, stamps;
    logic [64*LANES-1:0] time_2;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_stamp
            for (genvar k = 0; k < 9; k++) begin : g_byte
                assign stamp_write[9*i+k] = good[i] && meaning[MEANING*i+etm4_pkg::M_TIMESTAMP]
                    && stamped[4*i+:4] > 4'(k);
                assign stamp[72*i+8*k+:8] = after[72*i+8*k+:8];
                if (k < 8) begin : g_seven
                    assign time_2[64*i+7*k+:7] = stamps[72*i+8*k+:7];
                end else begin : g_eight
                    assign time_2[64*i+56+:8] = stamps[72*i+64+:8];
                end
            end
        end
    endgenerate
    register_walk #(.LANES(LANES), .PARTS(9), .BITS(8)) times (
        .clk, .advance, .restart, .clear(trace_info), .write(stamp_write), .data(stamp), .out(stamps)
    );
    word_delay #(.WIDTH(64 * LANES), .WORDS(STATE - LANES / 4 - 1)) timestamps (
        .clk, .advance, .in(time_2), .out(timestamp)
    );

    logic [32*LANES-1:0] threshold_2;
    etm4_threshold_prefix #(.LANES(LANES)) cycle_threshold (
        .clk, .rst, .advance, .restart, .trace_info, .control, .bytes, .threshold(threshold_2)
    );
    word_delay #(.WIDTH(32 * LANES), .WORDS(STATE - LANES / 4 - 6)) thresholds (
        .clk, .advance, .in(threshold_2), .out(threshold)
    );

endmodule
