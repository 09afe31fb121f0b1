// So many cycles of delay, in block RAM: for many bits that wait long, which would take a LUT each as shift registers.
//
// What block RAM gives is held in a register before it goes out: block RAM is slow.
//
//   WIDTH    bits
//   CYCLES   cycles, 3 or more

module block_delay #(
    parameter int WIDTH = 8,
    parameter int CYCLES = 3
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);

    // Places are written one after the other. What is read was written so many cycles before: the other two are registers.
    localparam int BEHIND = CYCLES - 2;
    localparam int ADDRESS = $clog2(BEHIND + 1);

    (* ram_style = "block" *) logic [WIDTH-1:0] words [0:(1<<ADDRESS)-1];
    logic [WIDTH-1:0]   read;
    logic [ADDRESS-1:0] newest, oldest;
    assign oldest = newest - ADDRESS'(BEHIND);

    always_ff @(posedge clk) begin
        newest <= rst ? '0 : newest + 1'b1;
        words[newest] <= in;
        read <= words[oldest];
        out <= read;
    end

endmodule
