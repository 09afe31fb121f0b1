// Sixteen lanes with holes to LANES lanes with holes, as many words as it takes.
//
// A word that has a gap inside it is sent in parts, so that gaps come before lane 0 only. Words without any byte and gap
// are sent too: they cost a cycle, and nothing after them.
//
//   LANES   lanes of the output, 1 to 16
//
// Takes sixteen lanes every ceil(16 / LANES) cycles. Latency: one cycle.

module lane_serialiser #(
    parameter int LANES = 4
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               in_valid,
    output logic               in_ready,
    input  logic [127:0]       in_data,
    input  logic [15:0]        in_keep,
    input  logic [15:0]        in_gap,
    output logic               gap,
    output logic [LANES-1:0]   keep,
    output logic [8*LANES-1:0] data
);

    localparam int WORDS = (16 + LANES - 1) / LANES;
    localparam int WIDE = WORDS * LANES;
    localparam int BITS = 8 * WIDE;

    logic [BITS-1:0]   data_q;
    logic [WIDE-1:0]   keep_q, gap_q;
    logic [WORDS-1:0]  left;      // words that are still to be sent, one bit each
    logic [LANES-1:0]  sent;      // lanes of the word that have been sent

    logic [LANES-1:0]  now, sent_s;
    logic              gap_s, first, stopped;

    always_comb begin
        now = '0;
        sent_s = sent;
        gap_s = 1'b0;
        first = 1'b1;
        stopped = 1'b0;
        for (int i = 0; i < LANES; i++) begin
            if (!sent[i] && !stopped) begin
                if (gap_q[i] && !first) stopped = 1'b1;
                else begin
                    gap_s = gap_s || gap_q[i];
                    now[i] = 1'b1;
                    sent_s[i] = 1'b1;
                    first = 1'b0;
                end
            end
        end
    end

    assign in_ready = left == '0 || (left == WORDS'(1) && !stopped);

    always_ff @(posedge clk) begin
        if (rst) begin
            left <= '0;
            sent <= '0;
            gap <= 1'b0;
            keep <= '0;
        end else begin
            gap <= left != '0 && gap_s;
            keep <= left != '0 ? now & keep_q[LANES-1:0] : '0;
            if (left != '0 && stopped) begin
                sent <= sent_s;
            end else begin
                sent <= '0;
                left <= left >> 1;
            end
            if (in_ready) left <= in_valid ? '1 : '0;
        end
        data <= data_q[8*LANES-1:0];
        if (in_ready) begin
            data_q <= BITS'(in_data);
            keep_q <= WIDE'(in_keep);
            gap_q <= WIDE'(in_gap);
        end else if (!stopped) begin
            data_q <= data_q >> (8 * LANES);
            keep_q <= keep_q >> LANES;
            gap_q <= gap_q >> LANES;
        end
    end

endmodule
