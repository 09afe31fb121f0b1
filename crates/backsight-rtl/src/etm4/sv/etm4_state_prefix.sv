// What ETMv4/ETE packets say with what came before: complete addresses and timestamps, the cycle count threshold.
//
// The same as etm4_state_chain, for packets at the lanes of their headers.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency of outputs: etm4_prefix_pkg::state_cycles(LANES); of the threshold as soon as it is known, threshold_cycles(LANES).

module etm4_state_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                step,       // a word is at the inputs
    input  logic                restart,
    input  logic [LANES-1:0]    good,       // a packet begins here that is not bad
    input  logic [8*(LANES+9)-1:0] bytes,   // the word, and nine bytes after it
    input  logic [LANES*etm4_pkg::MEANING-1:0] meaning,
    input  logic [72*LANES-1:0] after,      // the nine bytes after the header
    input  logic [4*LANES-1:0]  stamped,    // bytes of a timestamp
    input  logic [LANES-1:0]    sf,
    output logic                next,       // the outputs are those of a word in the next cycle
    output logic [64*LANES-1:0] address,    // the newest address after the packet of a lane
    output logic [LANES-1:0]    is,
    output logic [64*LANES-1:0] timestamp,
    output logic [32*LANES-1:0] threshold,  // after the byte of a lane
    output logic [32*LANES-1:0] threshold_soon
);

    localparam int MEANING = etm4_pkg::MEANING;
    localparam int SCAN = etm4_prefix_pkg::scan_cycles(LANES);
    localparam int STATE = etm4_prefix_pkg::state_cycles(LANES);
    localparam int THRESHOLD = etm4_prefix_pkg::threshold_cycles(LANES);

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
    lane_scan #(.LANES(LANES)) state_of_processor (
        .clk, .rst, .step, .restart, .set(context_set), .value(sf), .prior(wide)
    );
    logic [STATE-1:0] at;
    steps #(.CYCLES(STATE - 1)) stages (.clk, .rst, .step, .at);
    assign next = at[STATE-1];

    // Addresses: what packets bring, and what stays as it was.
    logic [LANES-1:0]       push, is1, long_one, long64, zero;
    logic [LANES-1:0]       push_1, forget_1, is1_1, long_1, long64_1, zero_1;
    logic [2*LANES-1:0]     from, from_1;
    logic [6*LANES-1:0]     take, take_1, take_2;
    logic [8*(LANES+8)-1:0] bytes_1;
    logic                   restart_1;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_address
            logic [MEANING-1:0] m;
            logic               short_one, second;
            assign m = meaning[MEANING*i+:MEANING];
            assign short_one = !m[etm4_pkg::M_EXACT];
            assign second = after[72*i+7];  // a short address has a second byte
            assign push[i] = good[i] && (m[etm4_pkg::M_PUSH]
                || etm4_pkg::has_no_address(m[etm4_pkg::M_EXCEPTION], after[72*i+:8]));
            assign from[2*i+:2] = {m[etm4_pkg::M_EXACT2], m[etm4_pkg::M_EXACT1]};
            assign take[6*i+:6] = m[etm4_pkg::M_LONG] ? {m[etm4_pkg::M_LONG64], 5'h1F}
                : {1'b0, 1'b0, short_one && second && !m[etm4_pkg::M_IS1], short_one && second,
                   short_one && (second || !m[etm4_pkg::M_IS1]), short_one};
            assign is1[i] = m[etm4_pkg::M_IS1];
            assign long_one[i] = m[etm4_pkg::M_LONG];
            assign long64[i] = m[etm4_pkg::M_LONG64];
            // PE Reset and Transaction Failure of ETE push address 0.
            assign zero[i] = trace_info[i] || (etm4_pkg::ETE && m[etm4_pkg::M_EXCEPTION]);
            // Bits 63:32 of a 32-bit address are 0 in AArch32 state, and those of an older address in AArch64 state.
            assign take_2[6*i+:6] = take_1[6*i+:6] | {long_1[i] && !wide[i], 5'b0};
        end
    endgenerate
    block_delay #(.WIDTH(14 * LANES + 1), .CYCLES(SCAN)) until_scanned (
        .clk, .rst, .in({restart, push, trace_info, from, take, is1, long_one, long64, zero}),
        .out({restart_1, push_1, forget_1, from_1, take_1, is1_1, long_1, long64_1, zero_1})
    );
    delay #(.WIDTH(8 * (LANES + 8)), .CYCLES(SCAN)) bytes_until_scanned (
        .clk, .in(bytes[8*(LANES+9)-1:8]), .out(bytes_1)
    );
    etm4_history_prefix #(.LANES(LANES)) last_three (
        .clk, .rst, .step(at[SCAN]), .restart(restart_1), .push(push_1), .forget(forget_1), .from(from_1), .take(take_2),
        .is1(is1_1), .long_one(long_1), .long64(long64_1), .zero(zero_1), .bytes(bytes_1), .address, .is
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
        .clk, .rst, .step, .restart, .clear(trace_info), .write(stamp_write), .data(stamp), .out(stamps)
    );
    block_delay #(.WIDTH(64 * LANES), .CYCLES(STATE - LANES / 4 - 1)) timestamps (.clk, .rst, .in(time_2), .out(timestamp));

    etm4_threshold_prefix #(.LANES(LANES)) cycle_threshold (
        .clk, .rst, .step, .restart, .trace_info, .control, .bytes(bytes[8*LANES-1:0]), .threshold(threshold_soon)
    );
    delay #(.WIDTH(32 * LANES), .CYCLES(STATE - THRESHOLD)) thresholds (.clk, .in(threshold_soon), .out(threshold));

endmodule
