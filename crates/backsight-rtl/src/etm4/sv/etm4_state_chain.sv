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

    // Where the bits of a part of the newest address are from after a packet.
    localparam logic [1:0] NEWEST = 2'd0;
    localparam logic [1:0] SECOND = 2'd1;
    localparam logic [1:0] THIRD = 2'd2;
    localparam logic [1:0] PACKET = 2'd3;

    function automatic [1:0] source(input push, input brings, input exact1, input exact2);
        if (!push) source = NEWEST;
        else if (brings) source = PACKET;
        else source = exact2 ? THIRD : exact1 ? SECOND : NEWEST;
    endfunction

    // The bits that a packet brings, and where they go. Parts of an address: 7:0 and IS, 8, 15:9, 16, 31:17, 63:32.
    localparam int PARTS = 6;
    logic [LANES-1:0]    push, forget, time_stamp, context_1, sf, narrow;
    logic [2*PARTS*LANES-1:0] from;
    logic [65*LANES-1:0] literal;
    logic [64*LANES-1:0] stamp;
    logic [9*LANES-1:0]  stamp_we;
    logic [32*LANES-1:0] cyct;

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_lane
            logic [etm4_pkg::MEANING-1:0] m;
            logic        ok, pushes, forgets, brings, second_byte, is_long, is1;
            logic [63:0] bits;
            assign m = meaning[etm4_pkg::MEANING*i+:etm4_pkg::MEANING];
            assign ok = last[i] && why[3*i+:3] == etm4_pkg::WHY_NONE;
            assign pushes = ok && (m[etm4_pkg::M_PUSH]
                || etm4_pkg::has_no_address(m[etm4_pkg::M_EXCEPTION], raw[72*i+:8]));
            assign forgets = ok && m[etm4_pkg::M_TRACE_INFO];
            assign brings = !m[etm4_pkg::M_EXACT];
            assign is_long = m[etm4_pkg::M_LONG];
            assign is1 = m[etm4_pkg::M_IS1];
            assign second_byte = brings && wrote[9*i+1];
            assign bits = etm4_pkg::literal(raw[72*i+:64], is1);

            function automatic [1:0] part(input is_brought);
                part = source(pushes, is_brought, m[etm4_pkg::M_EXACT1], m[etm4_pkg::M_EXACT2]);
            endfunction

            always_ff @(posedge clk) begin
                push[i] <= pushes && !rst;
                forget[i] <= forgets && !rst;
                time_stamp[i] <= ok && m[etm4_pkg::M_TIMESTAMP] && !rst;
                context_1[i] <= ok && m[etm4_pkg::M_CONTEXT] && !rst;
                sf[i] <= info[8*i+4];
                // A long address of 32 bits: the upper half is 0 in AArch32 state.
                narrow[i] <= pushes && is_long && !m[etm4_pkg::M_LONG64] && !rst;
                from[2*PARTS*i+:2*PARTS] <= {part(m[etm4_pkg::M_LONG64]), part(is_long),
                    part(is_long || (second_byte && !is1)), part(is_long || second_byte),
                    part(is_long || (brings && (!is1 || wrote[9*i+1]))), part(brings)};
                // Bit 16 of a short address is the highest of its second byte; a long one has its own byte for it.
                literal[65*i+:32] <= {bits[31:17], is_long ? bits[16] : raw[72*i+15], bits[15:0]};
                literal[65*i+32+:32] <= m[etm4_pkg::M_LONG64] ? bits[63:32] : 32'b0;
                literal[65*i+64] <= is1;
                // Nothing is known after a Trace Info: the addresses are 0, as that which PE Reset and Transaction Failure push.
                if (forgets || m[etm4_pkg::M_EXCEPTION]) literal[65*i+:65] <= '0;
                if (rst || forgets) from[2*PARTS*i+:2*PARTS] <= {PARTS{rst ? NEWEST : PACKET}};
                for (int k = 0; k < 8; k++) stamp[64*i+7*k+:7] <= raw[72*i+8*k+:7];
                stamp[64*i+56+:8] <= raw[72*i+64+:8];
                stamp_we[9*i+:9] <= wrote[9*i+:9];
                cyct[32*i+:32] <= number[32*i+:32];
            end
        end
    endgenerate

    function automatic chosen(input [1:0] which, input first, input other, input last_one, input brought);
        case (which)
            NEWEST: chosen = first;
            SECOND: chosen = other;
            THIRD: chosen = last_one;
            default: chosen = brought;
        endcase
    endfunction

    logic [64:0] newest, second, third, newest_s, second_s, third_s, made;
    logic [2*PARTS-1:0] from_s;
    logic [1:0]  which;
    logic [63:0] time_q, time_s;
    logic [31:0] threshold_q, threshold_s;
    logic        wide, wide_s;
    logic [64*LANES-1:0] address_next, timestamp_next;
    logic [LANES-1:0]    is_next;
    logic [32*LANES-1:0] threshold_next;

    always_comb begin
        newest_s = newest;
        second_s = second;
        third_s = third;
        time_s = time_q;
        threshold_s = threshold_q;
        wide_s = wide;
        made = '0;
        from_s = '0;
        which = NEWEST;
        for (int i = 0; i < LANES; i++) begin
            from_s = from[2*PARTS*i+:2*PARTS];
            if (narrow[i] && !wide_s) from_s[2*PARTS-1-:2] = PACKET;
            for (int k = 0; k < 65; k++) begin
                which = k >= 64 ? from_s[1:0] : k >= 32 ? from_s[11:10] : k >= 17 ? from_s[9:8] : k == 16 ? from_s[7:6]
                    : k >= 9 ? from_s[5:4] : k == 8 ? from_s[3:2] : from_s[1:0];
                made[k] = chosen(which, newest_s[k], second_s[k], third_s[k], literal[65*i+k]);
            end
            if (push[i]) begin
                third_s = second_s;
                second_s = newest_s;
            end
            newest_s = made;
            for (int k = 0; k < 8; k++) begin
                if (time_stamp[i] && stamp_we[9*i+k]) time_s[7*k+:7] = stamp[64*i+7*k+:7];
            end
            if (time_stamp[i] && stamp_we[9*i+8]) time_s[63:56] = stamp[64*i+56+:8];
            if (forget[i]) begin
                second_s = '0;
                third_s = '0;
                time_s = '0;
                threshold_s = cyct[32*i+:32];
            end
            if (context_1[i]) wide_s = sf[i];
            address_next[64*i+:64] = newest_s[63:0];
            is_next[i] = newest_s[64];
            timestamp_next[64*i+:64] = time_s;
            threshold_next[32*i+:32] = threshold_s;
        end
    end

    always_ff @(posedge clk) begin
        // `gap` belongs to the word after the one whose packets are merged here.
        if (rst || gap) begin
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
