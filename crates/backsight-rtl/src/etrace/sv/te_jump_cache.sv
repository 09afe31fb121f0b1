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
    logic [SIZE-1:0]          valid;
    logic [te_pkg::CACHE-1:0] index;
    assign index = target[te_pkg::LSB+:te_pkg::CACHE];
    assign hit = valid[index] && targets[index] == target;

    always_ff @(posedge clk) begin
        if (insert) targets[index] <= target;
        if (rst) begin
            valid <= '0;
        end else begin
            if (forget) valid <= '0;
            if (insert) valid[index] <= 1'b1;
        end
    end

endmodule
