// Example for a small board (ULX3S, Lattice ECP5): trace port half-words come over the USB serial line, and lamps count
// what they say.
//
// Serial line: 115200 baud, 8N1; the bytes of a trace port capture as they are in the file. Lamps 3:0 count branches, 5:4
// exceptions, 6 changes at each event, 7 lights after a gap. Trace ID 0x10.

module example_top #(
    parameter int CLOCK = 25_000_000,
    parameter int BAUD = 115_200
) (
    input  logic       clk_25mhz,
    input  logic       ftdi_txd,
    output logic [7:0] led
);

    localparam int LANES = 1;  //@chain
    localparam int LANES = 8;  //@prefix
    localparam int BIT = CLOCK / BAUD;

    // Reset for the first cycles after configuration.
    logic [3:0] started = 4'd0;
    logic       rst;
    assign rst = started != 4'hF;
    always_ff @(posedge clk_25mhz) if (rst) started <= started + 4'd1;

    // The serial line, sampled in the middle of its bits.
    logic [2:0]  line;
    logic [15:0] wait_for;
    logic [3:0]  bits;
    logic [8:0]  shift;
    logic        byte_ready;
    always_ff @(posedge clk_25mhz) begin
        line <= {line[1:0], ftdi_txd};
        byte_ready <= 1'b0;
        if (rst) begin
            bits <= 4'd0;
            wait_for <= 16'd0;
        end else if (bits == 4'd0) begin
            if (!line[2]) begin
                bits <= 4'd10;
                wait_for <= 16'(BIT / 2);
            end
        end else if (wait_for != 16'd0) begin
            wait_for <= wait_for - 16'd1;
        end else begin
            wait_for <= 16'(BIT - 1);
            shift <= {line[2], shift[8:1]};
            bits <= bits - 4'd1;
            byte_ready <= bits == 4'd2;
        end
    end

    // Half-words, frames, records.
    logic        odd, half_valid;
    logic [15:0] half;
    always_ff @(posedge clk_25mhz) begin
        half_valid <= byte_ready && odd && !rst;
        if (rst) odd <= 1'b0;
        else if (byte_ready) begin
            odd <= !odd;
            half <= {shift[8:1], half[15:8]};
        end
    end

    logic         frame_valid, frame_ready, frame_lost, overrun;
    logic [127:0] frame;
    frame_port #(.HALVES(1)) frames (
        .clk(clk_25mhz), .rst, .in_valid(half_valid), .in_data(half), .ready(frame_ready), .valid(frame_valid),
        .frame, .lost(frame_lost), .overrun
    );

    logic               record_gap;
    logic [3*LANES-1:0] record_kind;
    coresight_etm4 #(.LANES(LANES)) decoder (
        .clk(clk_25mhz), .rst, .id(7'h10), .frame_valid, .frame_ready, .frame, .frame_lost,
        .record_gap, .record_kind,
        .flush(1'b0), .packet_payload(),  //@prefix
        .byte_valid(), .packet_valid(), .packet_gap(), .packet_cut(), .packet_kind(), .packet_why(), .packet_header(),
        .packet_raw(), .packet_wrote(), .packet_number(), .packet_count(), .packet_info(), .packet_vmid(),
        .packet_cid(), .packet_address(), .packet_is(), .packet_timestamp(), .packet_threshold(), .record_cycle(),
        .record_value()
    );

    // How many records of each type the word has.
    logic [3:0] branches;
    logic [1:0] exceptions;
    logic       event_seen, gap_seen;
    always_comb begin
        branches = 4'd0;
        exceptions = 2'd0;
        event_seen = 1'b0;
        gap_seen = record_gap || overrun;
        for (int i = 0; i < LANES; i++) begin
            if (record_kind[3*i+:3] == etm4_pkg::RECORD_BRANCH) branches = branches + 4'd1;
            if (record_kind[3*i+:3] == etm4_pkg::RECORD_EXCEPTION) exceptions = exceptions + 2'd1;
            if (record_kind[3*i+:3] == etm4_pkg::RECORD_EVENT) event_seen = !event_seen;
            if (record_kind[3*i+:3] == etm4_pkg::RECORD_GAP) gap_seen = 1'b1;
        end
    end

    always_ff @(posedge clk_25mhz) begin
        if (rst) led <= 8'd0;
        else led <= {led[7] | gap_seen, led[6] ^ event_seen, led[5:4] + exceptions, led[3:0] + branches};
    end

endmodule
