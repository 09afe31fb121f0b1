// Packets on their way out.
//
// Room is given out when a packet is requested, so that what is under way in te_payload always fits.

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

    logic [te_pkg::PAYLOAD+4:0] packets [te_pkg::PACKET_DEPTH];
    logic [INDEX-1:0] head, tail;
    logic [INDEX:0]   level;
    logic             leaves;

    assign leaves = out_valid && out_ready;
    assign room = given != (INDEX + 1)'(te_pkg::PACKET_DEPTH);
    assign half_empty = given <= (INDEX + 1)'(te_pkg::PACKET_DEPTH / 2);
    assign out_valid = level != '0;
    assign {out_bytes, out_payload} = packets[head];

    always_ff @(posedge clk) begin
        if (in_valid) packets[tail] <= {in_bytes, in_payload};
        if (rst) begin
            head <= '0;
            tail <= '0;
            level <= '0;
            given <= '0;
        end else begin
            head <= head + INDEX'(leaves);
            tail <= tail + INDEX'(in_valid);
            level <= level + (INDEX + 1)'(in_valid) - (INDEX + 1)'(leaves);
            given <= given + (INDEX + 1)'(request) - (INDEX + 1)'(leaves);
        end
    end

endmodule
