// The branch predictor that a reader of the trace runs beside: for each of 2^te_pkg::PREDICTOR groups of addresses what is
// predicted and what the latest branch did, 1 for taken. A prediction turns when it was wrong twice.

module te_predictor (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     forget,     // before this step
    input  logic                     learn,      // a branch
    input  logic [te_pkg::IADDR-1:0] address,
    input  logic                     taken,
    output logic                     correct     // it was predicted
);

    localparam int SIZE = 1 << te_pkg::PREDICTOR;
    localparam logic [1:0] INITIAL = 2'b01;

    (* ram_style = "distributed" *) logic [1:0] entries [0:SIZE-1];
    logic [te_pkg::PREDICTOR-1:0] index;
    logic                         known, predicted, last;
    assign index = address[te_pkg::LSB+:te_pkg::PREDICTOR];
    assign {predicted, last} = known && !forget ? entries[index] : INITIAL;
    assign correct = predicted == taken;

    te_known #(.BITS(te_pkg::PREDICTOR)) entries_known (.clk, .rst, .forget, .learn, .index, .known);

    always_ff @(posedge clk) begin
        if (learn) entries[index] <= {predicted != last ? taken : predicted, taken};
    end

endmodule
