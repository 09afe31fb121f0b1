// When to synchronise again: packets, cycles or half-words are counted.
//
// At the limit an instruction must be named that is not an uninferable jump (flush); the item after it gets a start packet
// (send). Every sync packet begins the count again.

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
            logic flushing, sending, reached;
            assign counting = !flushing && !sending;
            assign flush = flushing || !sending && reached;
            assign send = sending;
            always_ff @(posedge clk) begin
                if (rst || clear) begin
                    flushing <= 1'b0;
                    sending <= 1'b0;
                end else if (step) begin
                    flushing <= flush && !named;
                    sending <= sending || named;
                end
            end

            // Beyond the limit nothing changes any more.
            logic [C-1:0] count;
            if (te_pkg::RESYNC == te_pkg::RESYNC_PACKETS) begin : g_packets
                // What one more packet would lead to is known before there is one.
                logic [C-1:0] next;
                logic         close;
                assign next = count + C'(1);
                assign near = close;
                always_ff @(posedge clk) begin
                    if (rst || clear) begin
                        count <= '0;
                        reached <= 1'b0;
                        close <= te_pkg::RESYNC_LIMIT <= C'(2);
                    end else if (sent && !reached) begin
                        count <= next;
                        reached <= next == te_pkg::RESYNC_LIMIT;
                        close <= (C + 1)'(next) + (C + 1)'(2) >= (C + 1)'(te_pkg::RESYNC_LIMIT);
                    end
                end
            end else begin : g_weights
                logic [C:0] sum;
                assign sum = (C + 1)'(count) + (C + 1)'(weight);
                assign reached = sum >= (C + 1)'(te_pkg::RESYNC_LIMIT);
                assign near = sum + (C + 1)'(2) >= (C + 1)'(te_pkg::RESYNC_LIMIT);
                always_ff @(posedge clk) begin
                    if (rst || clear) count <= '0;
                    else if (step) count <= reached ? te_pkg::RESYNC_LIMIT : sum[C-1:0];
                end
            end
        end
    endgenerate

endmodule
