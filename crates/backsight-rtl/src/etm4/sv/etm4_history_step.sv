// One packet and the last three addresses: one step of etm4_history_prefix. Combinational.
//
// An address is 65 bits, IS in bit 64, with two bits for each of its six parts (7:0 and IS, 8, 15:9, 16, 31:17, 63:32) that
// say where the part is from: the old address 0, 1 or 2, or 3 if its bits are known.

module etm4_history_step (
    input  logic         push,     // the packet has an address
    input  logic         forget,   // the packet makes all three 0
    input  logic [11:0]  source,   // where the parts of the newest are from: one of the three, or 3 for `literal`
    input  logic [64:0]  literal,  // what the packet brings; 0 if it makes all three 0
    input  logic [230:0] in,       // three addresses, the newest in the lowest bits
    output logic [230:0] out
);

    localparam int ENTRY = 77;

    logic [ENTRY-1:0] newest, second, third, brought, made;
    logic [1:0]       which;
    assign {third, second, newest} = in;
    assign brought = {12'hFFF, literal};

    // One choice for each bit.
    always_comb begin
        which = 2'd0;
        for (int k = 0; k < ENTRY; k++) begin
            if (k >= 65) which = source[2*((k-65)/2)+:2];
            else if (k == 64 || k < 8) which = source[1:0];
            else if (k == 8) which = source[3:2];
            else if (k < 16) which = source[5:4];
            else if (k == 16) which = source[7:6];
            else if (k < 32) which = source[9:8];
            else which = source[11:10];
            case (which)
                2'd0: made[k] = newest[k];
                2'd1: made[k] = second[k];
                2'd2: made[k] = third[k];
                default: made[k] = brought[k];
            endcase
        end
    end
    assign out = {forget ? {12'hFFF, 65'b0} : push ? second : third,
                  forget ? {12'hFFF, 65'b0} : push ? newest : second, made};

endmodule
