// When to synchronise again: packets, cycles or half-words are counted.
//
// At the limit an instruction must be named that is not an uninferable jump (flush); the item after it gets a start packet
// (send). Every sync packet begins the count anew.

module te_resync (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     step,      // an item is decided about
    input  logic [te_pkg::COUNT-1:0] weight,    // what it adds
    input  logic                     sent,      // a packet leaves
    input  logic                     named,     // the flush was done
    input  logic                     clear,     // a sync packet leaves
    output logic                     counting,  // neither flush nor send, before this item
    output logic                     near,      // the limit might be reached with this item or the packets about it
    output logic                     flush,
    output logic                     send
);

    localparam int C = te_pkg::COUNT;

    generate
        if (te_pkg::RESYNC == te_pkg::RESYNC_OFF) begin : g_off
            assign counting = 1'b1;
            assign near = 1'b0;
            assign flush = 1'b0;
            assign send = 1'b0;
        end else begin : g_on
            logic [C-1:0] count;
            logic [C:0]   sum, more;
            logic         flushing, sending, reached;
            assign sum = (C + 1)'(count) + (C + 1)'(weight);
            assign reached = sum >= (C + 1)'(te_pkg::RESYNC_LIMIT);
            assign near = sum + (C + 1)'(2) >= (C + 1)'(te_pkg::RESYNC_LIMIT);
            assign counting = !flushing && !sending;
            assign flush = flushing || !sending && reached;
            assign send = sending;
            assign more = (step ? sum : (C + 1)'(count)) + (C + 1)'(sent && te_pkg::RESYNC == te_pkg::RESYNC_PACKETS);
            always_ff @(posedge clk) begin
                if (rst || clear) begin
                    count <= '0;
                    flushing <= 1'b0;
                    sending <= 1'b0;
                end else begin
                    // Beyond the limit nothing changes any more.
                    count <= more >= (C + 1)'(te_pkg::RESYNC_LIMIT) ? te_pkg::RESYNC_LIMIT : more[C-1:0];
                    if (step) begin
                        flushing <= flush && !named;
                        sending <= sending || named;
                    end
                end
            end
        end
    endgenerate

endmodule
