// Targets of uninferable jumps that a reader of the trace has met before: 2^te_pkg::CACHE of them, each in the only entry that
// can hold it.

module te_jump_cache (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     forget,
    input  logic                     insert,     // the target
    input  logic [te_pkg::IADDR-1:0] target,
    output logic                     hit         // it is there already
);

    localparam int SIZE = 1 << te_pkg::CACHE;

    (* ram_style = "distributed" *) logic [te_pkg::IADDR-1:0] targets [0:SIZE-1];
    logic [te_pkg::CACHE-1:0] index;
    logic                     known;
    assign index = target[te_pkg::LSB+:te_pkg::CACHE];
    assign hit = known && targets[index] == target;

    te_known #(.BITS(te_pkg::CACHE)) targets_known (.clk, .rst, .forget, .learn(insert), .index, .known);

    always_ff @(posedge clk) begin
        if (insert) targets[index] <= target;
    end

endmodule
