// One packet and the last three addresses: one step of etm4_history_prefix. Combinational.
//
// An address is 65 bits, IS in bit 64, with two bits for each of its six parts (7:0 and IS, 8, 15:9, 16, 31:17, 63:32) that
// say where the part is from: the old address 0, 1 or 2, or 3 if its bits are known.

module etm4_history_step (
    input  logic         push,     // the packet has an address
    input  logic         forget,   // the packet makes all three 0
    input  logic [1:0]   from,     // which of the three the bits are of that the packet does not bring
    input  logic [5:0]   take,     // parts that the packet brings
    input  logic [64:0]  literal,
    input  logic [230:0] in,       // three addresses, the newest in the lowest bits
    output logic [230:0] out
);

    localparam int ENTRY = 77;

    logic [ENTRY-1:0] other, made;
    logic [64:0]      mask;        // bits that the packet brings
    logic [11:0]      known;
    assign other = from == 2'd0 ? in[0+:ENTRY] : from == 2'd1 ? in[ENTRY+:ENTRY] : in[2*ENTRY+:ENTRY];
    assign mask = {take[0], {32{take[5]}}, {15{take[4]}}, take[3], {7{take[2]}}, take[1], {8{take[0]}}};
    assign known = {{2{take[5]}}, {2{take[4]}}, {2{take[3]}}, {2{take[2]}}, {2{take[1]}}, {2{take[0]}}};
    assign made = {other[76:65] | known, (literal & mask) | (other[64:0] & ~mask)};
    assign out = forget ? {3{12'hFFF, 65'b0}} : push ? {in[2*ENTRY-1:0], made} : in;

endmodule
