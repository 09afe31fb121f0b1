// CoreSight trace port to frames: takes away full syncs (0x7FFFFFFF) and half syncs (0x7FFF).
//
// A trace port sends frames of eight half-words, full syncs between frames and half syncs anywhere between half-words.
// Nothing is sent on before the first full sync. A full sync inside a frame, and a half-word that no frame can hold,
// mean that trace was lost: the frame after that has `lost` set.
//
//   HALVES   half-words a cycle, 1 to 8, the oldest in bits 15:0; half-words are aligned
//
// Latency: one cycle. There is no back-pressure towards the port: `overrun` pulses where a frame had to be dropped
// because `ready` was low.

module frame_port #(
    parameter int HALVES = 2
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 in_valid,
    input  logic [16*HALVES-1:0] in_data,
    input  logic                 ready,
    output logic                 valid,
    output logic [127:0]         frame,
    output logic                 lost,
    output logic                 overrun
);

    logic         synced, sync_half;
    logic [3:0]   filled;
    logic [127:0] held;
    logic         losing;

    logic         synced_s, sync_half_s, losing_s, done, done_lost;
    logic [3:0]   filled_s;
    logic [127:0] held_s, done_frame;
    logic [15:0]  h;

    always_comb begin
        synced_s = synced;
        sync_half_s = sync_half;
        filled_s = filled;
        held_s = held;
        losing_s = losing;
        done = 1'b0;
        done_lost = 1'b0;
        done_frame = held;
        h = '0;
        for (int i = 0; i < HALVES; i++) begin
            h = in_data[16*i+:16];
            if (in_valid) begin
                if (sync_half_s && h == 16'h7FFF) begin
                    // A full sync: a frame begins. In the middle of one, the rest of it is missing.
                    losing_s = losing_s || (synced_s && filled_s != 4'd0);
                    synced_s = 1'b1;
                    filled_s = 4'd0;
                    sync_half_s = 1'b0;
                end else if (h == 16'hFFFF) begin
                    // Two of them in a row belong to no frame.
                    if (sync_half_s && synced_s) begin
                        synced_s = 1'b0;
                        losing_s = 1'b1;
                    end
                    sync_half_s = 1'b1;
                end else if (sync_half_s || (h[7:0] == 8'hFF && h != 16'h7FFF)) begin
                    losing_s = losing_s || synced_s;
                    synced_s = 1'b0;
                    sync_half_s = 1'b0;
                end else if (synced_s && h != 16'h7FFF) begin
                    held_s = {h, held_s[127:16]};
                    filled_s = filled_s + 4'd1;
                    if (filled_s == 4'd8) begin
                        done = 1'b1;
                        done_lost = losing_s;
                        done_frame = held_s;
                        losing_s = 1'b0;
                        filled_s = 4'd0;
                    end
                end
            end
        end
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            synced <= 1'b0;
            sync_half <= 1'b0;
            filled <= 4'd0;
            losing <= 1'b0;
            valid <= 1'b0;
            lost <= 1'b0;
            overrun <= 1'b0;
        end else begin
            synced <= synced_s;
            sync_half <= sync_half_s;
            filled <= filled_s;
            overrun <= done && valid && !ready;
            // A frame that is dropped is lost before the next one.
            losing <= losing_s || (done && valid && !ready);
            if (!valid || ready) begin
                valid <= done;
                lost <= done_lost;
            end
        end
        held <= held_s;
        if (!valid || ready) frame <= done_frame;
    end

endmodule
