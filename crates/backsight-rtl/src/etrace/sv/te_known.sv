// Which entries of a table hold something: none at first, and none after it is forgotten.

module te_known #(
    parameter int BITS = 1      // of an index
) (
    input  logic            clk,
    input  logic            rst,
    input  logic            forget,
    input  logic            learn,      // the entry, also while the others are forgotten
    input  logic [BITS-1:0] index,
    output logic            known       // the entry, before this cycle
);

    logic [(1 << BITS)-1:0] entries;
    assign known = entries[index];

    always_ff @(posedge clk) begin
        if (rst) begin
            entries <= '0;
        end else begin
            if (forget) entries <= '0;
            if (learn) entries[index] <= 1'b1;
        end
    end

endmodule
