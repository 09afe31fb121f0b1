// What ETMv4/ETE packets say with what came before: complete addresses and timestamps, the cycle count threshold.
//
// The trace unit and this module both remember the last three addresses, the last timestamp, the threshold of the
// last Trace Info and whether the processor is in AArch64 state. A packet changes them where it ends, unless it is bad.
//
//   LANES   bytes a cycle
//
// Latency: two cycles: the bits that packets bring are laid out, then merged into the state lane by lane.

module etm4_state_chain #(
    parameter int LANES = 4
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                gap,
    input  logic [LANES-1:0]    last,
    input  logic [3*LANES-1:0]  why,
    input  logic [LANES*etm4_pkg::MEANING-1:0] meaning,  // what etm4_meaning says of each header
    input  logic [72*LANES-1:0] raw,
    input  logic [9*LANES-1:0]  wrote,
    input  logic [32*LANES-1:0] number,
    input  logic [8*LANES-1:0]  info,
    output logic [64*LANES-1:0] address,    // the newest address after the packet of a lane
    output logic [LANES-1:0]    is,         // its instruction set flag
    output logic [64*LANES-1:0] timestamp,
    output logic [32*LANES-1:0] threshold
);

    // The bits that a packet brings, and where they go.
    logic                gap_1;
    logic [LANES-1:0]    push, exact1, exact2, is1, forget, time_stamp, context_1, sf;
    logic [LANES-1:0]    take0, take8, take9, take16, take17, take32, upper_is_wide;
    logic [64*LANES-1:0] literal;
    logic [64*LANES-1:0] stamp;
    logic [9*LANES-1:0]  stamp_we;
    logic [32*LANES-1:0] cyct;

    always_ff @(posedge clk) begin
        gap_1 <= gap && !rst;
        for (int i = 0; i < LANES; i++) begin
            literal[64*i+:64] <= etm4_pkg::literal(raw[72*i+:64], meaning[etm4_pkg::MEANING*i+etm4_pkg::M_IS1]);
            push[i] <= !rst && last[i] && why[3*i+:3] == 3'b0
                && (meaning[etm4_pkg::MEANING*i+etm4_pkg::M_PUSH]
                    || etm4_pkg::has_no_address(meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXCEPTION], raw[72*i+:8]));
            exact1[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXACT1];
            exact2[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXACT2];
            is1[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_IS1];
            // PE Reset and Transaction Failure push address 0: all bits are literal, and none is set.
            if (meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXCEPTION]) literal[64*i+:64] <= '0;
            take0[i] <= !meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXACT];
            take8[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG]
                || (!meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXACT]
                    && (!meaning[etm4_pkg::MEANING*i+etm4_pkg::M_IS1] || wrote[9*i+1]));
            take9[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG]
                || (!meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXACT] && wrote[9*i+1]);
            take16[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG]
                || (!meaning[etm4_pkg::MEANING*i+etm4_pkg::M_EXACT] && wrote[9*i+1]
                    && !meaning[etm4_pkg::MEANING*i+etm4_pkg::M_IS1]);
            take17[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG];
            take32[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG64];
            upper_is_wide[i] <= meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG];
            // Bit 16 of a short address is the highest of its second byte; a long one has its own byte for it.
            if (!meaning[etm4_pkg::MEANING*i+etm4_pkg::M_LONG]) literal[64*i+16] <= raw[72*i+15];
            forget[i] <= !rst && last[i] && why[3*i+:3] == 3'b0 && meaning[etm4_pkg::MEANING*i+etm4_pkg::M_TRACE_INFO];
            time_stamp[i] <= !rst && last[i] && why[3*i+:3] == 3'b0 && meaning[etm4_pkg::MEANING*i+etm4_pkg::M_TIMESTAMP];
            context_1[i] <= !rst && last[i] && why[3*i+:3] == 3'b0 && meaning[etm4_pkg::MEANING*i+etm4_pkg::M_CONTEXT];
            sf[i] <= info[8*i+4];
            for (int k = 0; k < 8; k++) stamp[64*i+7*k+:7] <= raw[72*i+8*k+:7];
            stamp[64*i+56+:8] <= raw[72*i+64+:8];
            stamp_we[9*i+:9] <= wrote[9*i+:9];
            cyct[32*i+:32] <= number[32*i+:32];
        end
    end

    logic [64:0] newest, second, third, newest_s, second_s, third_s, old, pushed;
    logic [63:0] time_q, time_s;
    logic [31:0] threshold_q, threshold_s;
    logic        wide, wide_s;
    logic [64*LANES-1:0] address_next, timestamp_next;
    logic [LANES-1:0]    is_next;
    logic [32*LANES-1:0] threshold_next;

    always_comb begin
        newest_s = gap_1 ? '0 : newest;
        second_s = gap_1 ? '0 : second;
        third_s = gap_1 ? '0 : third;
        time_s = gap_1 ? '0 : time_q;
        threshold_s = gap_1 ? '0 : threshold_q;
        wide_s = gap_1 ? 1'b0 : wide;
        old = '0;
        pushed = '0;
        for (int i = 0; i < LANES; i++) begin
            old = exact2[i] ? third_s : exact1[i] ? second_s : newest_s;
            pushed[64] = take0[i] ? is1[i] : old[64];
            pushed[7:0] = take0[i] ? literal[64*i+:8] : old[7:0];
            pushed[8] = take8[i] ? literal[64*i+8] : old[8];
            pushed[15:9] = take9[i] ? literal[64*i+9+:7] : old[15:9];
            pushed[16] = take16[i] ? literal[64*i+16] : old[16];
            pushed[31:17] = take17[i] ? literal[64*i+17+:15] : old[31:17];
            pushed[63:32] = take32[i] ? literal[64*i+32+:32] : upper_is_wide[i] && !wide_s ? 32'b0 : old[63:32];
            if (forget[i]) begin
                newest_s = '0;
                second_s = '0;
                third_s = '0;
                time_s = '0;
                threshold_s = cyct[32*i+:32];
            end else if (push[i]) begin
                third_s = second_s;
                second_s = newest_s;
                newest_s = pushed;
            end
            for (int k = 0; k < 8; k++) begin
                if (time_stamp[i] && stamp_we[9*i+k]) time_s[7*k+:7] = stamp[64*i+7*k+:7];
            end
            if (time_stamp[i] && stamp_we[9*i+8]) time_s[63:56] = stamp[64*i+56+:8];
            if (context_1[i]) wide_s = sf[i];
            address_next[64*i+:64] = newest_s[63:0];
            is_next[i] = newest_s[64];
            timestamp_next[64*i+:64] = time_s;
            threshold_next[32*i+:32] = threshold_s;
        end
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            newest <= '0;
            second <= '0;
            third <= '0;
            time_q <= '0;
            threshold_q <= '0;
            wide <= 1'b0;
        end else begin
            newest <= newest_s;
            second <= second_s;
            third <= third_s;
            time_q <= time_s;
            threshold_q <= threshold_s;
            wide <= wide_s;
        end
        address <= address_next;
        is <= is_next;
        timestamp <= timestamp_next;
        threshold <= threshold_next;
    end

endmodule
