// CoreSight frames to the bytes of one source.
//
// Bytes 0, 2 … 14 of a frame are data, or with bit 0 set a new source ID; byte 15 holds the lowest bits of those that
// are data, and for an ID whether it takes effect one byte later. All that goes from byte to byte is one bit: is the
// current source the wanted one?
//
// Lane 15 never holds a byte. A gap is reported at the lane before which bytes are missing: at a source ID of 0x7F, at a
// barrier (a frame of four full syncs), and at a frame with `in_lost` set. The source is unknown then until the next ID.
//
// Latency: one cycle.

module frame_demux (
    input  logic         clk,
    input  logic         rst,
    input  logic [6:0]   id,        // the wanted source, 0x01 to 0x6F; constant while there are frames
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_frame,  // byte 0 in bits 7:0
    input  logic         in_lost,   // frames are missing before this one
    output logic         valid,
    input  logic         ready,
    output logic [127:0] data,
    output logic [15:0]  keep,
    output logic [15:0]  gap
);

    logic         mine, mine_s;
    logic [127:0] data_s;
    logic [15:0]  keep_s, gap_s;
    logic [7:0]   x, aux;
    logic         is_mine, is_illegal;

    assign in_ready = !valid || ready;
    assign aux = in_frame[127:120];

    always_comb begin
        mine_s = mine && !in_lost;
        data_s = in_frame;
        keep_s = '0;
        gap_s = {15'b0, in_lost};
        x = '0;
        is_mine = 1'b0;
        is_illegal = 1'b0;
        for (int k = 0; k < 8; k++) begin
            x = in_frame[16*k+:8];
            is_mine = x[7:1] == id;
            is_illegal = x[7:1] == 7'h7F;
            data_s[16*k] = aux[k];
            if (!x[0]) begin
                keep_s[2*k] = mine_s;
                keep_s[2*k+1] = mine_s && k < 7;
            end else if (aux[k] && k < 7) begin
                // The byte after the ID is still the old source's.
                keep_s[2*k+1] = mine_s;
                mine_s = is_mine;
                if (is_illegal) gap_s[(2*k+2)%16] = 1'b1;
            end else begin
                mine_s = is_mine;
                keep_s[2*k+1] = is_mine && k < 7;
                if (is_illegal) gap_s[2*k] = 1'b1;
            end
        end
        if (in_frame == {4{32'h7FFFFFFF}}) begin
            keep_s = '0;
            gap_s = 16'h0001;
            mine_s = 1'b0;
        end
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            mine <= 1'b0;
            valid <= 1'b0;
        end else if (in_ready) begin
            valid <= in_valid;
            if (in_valid) mine <= mine_s;
        end
        if (in_ready) begin
            data <= data_s;
            keep <= keep_s;
            gap <= gap_s;
        end
    end

endmodule
