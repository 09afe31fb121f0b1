// Packets to words of a trace bus (ATB): a header byte, the number of the source, the payload.
//
// Every packet begins a new word; `at_bytes` is the number of valid bytes less one, byte 0 of the stream is in bits 7:0.
// With words of one byte this is a byte stream. Before the first packet, and then once after every SYNC_PERIOD bytes, comes a
// synchronisation sequence, where the framing has one. `af_valid` asks for everything that has been made so far;
// `af_ready` answers when it is out.

module te_encap (
    input  logic clk,
    input  logic rst,
    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic [te_pkg::PAYLOAD-1:0]  in_payload,
    input  logic [4:0]                  in_bytes,
    input  logic [$clog2(te_pkg::PACKET_DEPTH):0] given,         // packets that are made, or being made, and did not come in
    output logic                        at_valid,
    input  logic                        at_ready,
    output logic [8*te_pkg::BUS-1:0]    at_data,
    output logic [(te_pkg::BUS > 1 ? $clog2(te_pkg::BUS) : 1)-1:0] at_bytes,
    input  logic                        af_valid,
    output logic                        af_ready
);

    localparam int BUS = te_pkg::BUS;
    localparam int INDEX = BUS > 1 ? $clog2(BUS) : 1;
    localparam int FRAME = 1 + te_pkg::PREFIX + te_pkg::BYTES;
    localparam int LEFT = 7;
    localparam int SYNC = te_pkg::SYNC_ZEROS;
    localparam int SINCE = $clog2(te_pkg::SYNC_PERIOD + 128) + 1;

    // What is left of the frame under way; a synchronisation sequence is zeros, then 0x80.
    logic [8*FRAME-1:0] frame;
    logic [LEFT-1:0]    left;
    logic               sync, sync_due, first, moves, loads, more;
    logic [SINCE-1:0]   since;
    logic [7:0]         header;
    logic [8*FRAME-1:0] framed;

    assign header = {te_pkg::HEADER, in_bytes + te_pkg::COUNTED};
    generate
        if (te_pkg::PREFIX == 0) begin : g_plain
            assign framed = {in_payload, header};
        end else begin : g_prefix
            assign framed = {in_payload, te_pkg::PREFIX_BYTES[8*te_pkg::PREFIX-1:0], header};
        end
    endgenerate

    assign sync_due = SYNC != 0 && (first || te_pkg::SYNC_PERIOD != 0 && since >= SINCE'(te_pkg::SYNC_PERIOD));
    assign more = left > LEFT'(BUS);
    assign at_valid = left != '0;
    assign moves = at_valid && at_ready;
    assign loads = (!at_valid || moves && !more) && in_valid;
    assign in_ready = loads && !sync_due;
    assign at_bytes = more ? INDEX'(BUS - 1) : INDEX'(left - LEFT'(1));

    always_comb begin
        at_data = '0;
        for (int i = 0; i < BUS; i++) begin
            if (LEFT'(i) < left)
                at_data[8*i+:8] = sync ? (left == LEFT'(i + 1) ? 8'h80 : 8'h00) : frame[8*i+:8];
        end
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            left <= '0;
            first <= 1'b1;
            since <= '0;
            sync <= 1'b0;
        end else if (loads && sync_due) begin
            left <= LEFT'(SYNC + 1);
            sync <= 1'b1;
            first <= 1'b0;
            since <= SINCE'(SYNC + 1);
        end else if (loads) begin
            left <= LEFT'(in_bytes) + LEFT'(1 + te_pkg::PREFIX);
            sync <= 1'b0;
            // Beyond the period, where a sequence is due, nothing changes any more.
            if (!sync_due) since <= since + SINCE'(in_bytes) + SINCE'(1 + te_pkg::PREFIX);
        end else if (moves) begin
            left <= more ? left - LEFT'(BUS) : '0;
        end
        if (loads) frame <= framed;
        else if (moves) frame <= frame >> (8 * BUS);
    end

    // A flush waits for the packets that there are now, and for the frame of the last of them.
    logic flushing;
    logic [$clog2(te_pkg::PACKET_DEPTH):0] flush_left;
    always_ff @(posedge clk) begin
        if (rst || !af_valid) begin
            flushing <= 1'b0;
            af_ready <= 1'b0;
        end else begin
            flushing <= 1'b1;
            if (!flushing) flush_left <= given - ($clog2(te_pkg::PACKET_DEPTH) + 1)'(in_ready);
            else if (flush_left != '0) flush_left <= flush_left - ($clog2(te_pkg::PACKET_DEPTH) + 1)'(in_ready);
            else if (!at_valid || moves && !more) af_ready <= 1'b1;
        end
    end

endmodule
