// Resolved branches on their way to commit.
//
// The branch unit reports a branch or jump some cycles before it commits. The oldest records wait here; lane 0 of the
// output is the oldest, lane 1 the one after it. `pop` removes as many as were matched. When the queue is full the oldest
// record gives way. `flush` empties it: the core dropped what has not committed.

module te_resolved (
    input  logic clk,
    input  logic rst,
    input  logic flush,
    input  logic                        resolved_valid,
    input  logic [te_pkg::IADDR-1:0]    resolved_pc,
    input  logic                        resolved_taken,
    input  logic [1:0]                  resolved_kind,
    input  logic [$clog2(te_pkg::PORTS+1)-1:0] pop,
    output logic [te_pkg::PORTS-1:0]    valid,
    output logic [te_pkg::PORTS*te_pkg::IADDR-1:0] pc,
    output logic [te_pkg::PORTS-1:0]    taken,
    output logic [2*te_pkg::PORTS-1:0]  kind
);

    localparam int INDEX = $clog2(te_pkg::RESOLVED_DEPTH);
    localparam int WIDTH = te_pkg::IADDR + 3;

    logic [WIDTH-1:0] records [te_pkg::RESOLVED_DEPTH];
    logic [INDEX-1:0] head, tail;
    logic [INDEX:0]   level, left;
    logic             full;

    assign left = level - (INDEX + 1)'(pop);
    assign full = left == (INDEX + 1)'(te_pkg::RESOLVED_DEPTH);

    always_ff @(posedge clk) begin
        if (resolved_valid) records[tail] <= {resolved_kind, resolved_taken, resolved_pc};
        if (rst || flush) begin
            head <= '0;
            tail <= '0;
            level <= '0;
        end else begin
            head <= head + INDEX'(pop) + INDEX'(resolved_valid && full);
            tail <= tail + INDEX'(resolved_valid);
            level <= left + (INDEX + 1)'(resolved_valid && !full);
        end
    end

    for (genvar i = 0; i < te_pkg::PORTS; i++) begin : g_lane
        logic [WIDTH-1:0] entry;
        logic [INDEX-1:0] index;
        assign index = head + INDEX'(i);
        assign entry = records[index];
        assign valid[i] = level > (INDEX + 1)'(i);
        assign {kind[2*i+:2], taken[i], pc[te_pkg::IADDR*i+:te_pkg::IADDR]} = entry;
    end

endmodule
