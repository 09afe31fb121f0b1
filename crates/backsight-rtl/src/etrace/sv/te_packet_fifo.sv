// Packets on their way out.
//
// Room is given out when a packet is requested, so that what is under way in te_payload always fits. Packets wait in block RAM;
// the first of them is fetched before it is asked for.

module te_packet_fifo (
    input  logic clk,
    input  logic rst,
    // Requests: room for one packet, half of the room or more.
    input  logic                        request,
    output logic                        room,
    output logic                        half_empty,
    output logic [$clog2(te_pkg::PACKET_DEPTH):0] given,         // packets that hold room
    // Packets.
    input  logic                        in_valid,
    input  logic [te_pkg::PAYLOAD-1:0]  in_payload,
    input  logic [4:0]                  in_bytes,
    output logic                        out_valid,
    input  logic                        out_ready,
    output logic [te_pkg::PAYLOAD-1:0]  out_payload,
    output logic [4:0]                  out_bytes
);

    localparam int INDEX = $clog2(te_pkg::PACKET_DEPTH);

    // `head` and `tail` go round twice before they are 0 again: they are equal when no packet waits. A packet always finds room;
    // that it is only written then shows tools that no place is written and read at once.
    (* ram_style = "block" *) logic [te_pkg::PAYLOAD+4:0] packets [te_pkg::PACKET_DEPTH];
    logic [INDEX:0] head, tail;
    logic           leaves, write, fetch;

    assign leaves = out_valid && out_ready;
    assign room = given != (INDEX + 1)'(te_pkg::PACKET_DEPTH);
    assign half_empty = given <= (INDEX + 1)'(te_pkg::PACKET_DEPTH / 2);
    assign write = in_valid && tail - head != (INDEX + 1)'(te_pkg::PACKET_DEPTH);
    assign fetch = head != tail && (!out_valid || out_ready);

    always_ff @(posedge clk) begin
        if (write) packets[tail[INDEX-1:0]] <= {in_bytes, in_payload};
        if (fetch) {out_bytes, out_payload} <= packets[head[INDEX-1:0]];
        if (rst) begin
            head <= '0;
            tail <= '0;
            out_valid <= 1'b0;
            given <= '0;
        end else begin
            head <= head + (INDEX + 1)'(fetch);
            tail <= tail + (INDEX + 1)'(write);
            out_valid <= fetch || out_valid && !out_ready;
            if (request && !leaves) given <= given + (INDEX + 1)'(1);
            if (leaves && !request) given <= given - (INDEX + 1)'(1);
        end
    end

endmodule
