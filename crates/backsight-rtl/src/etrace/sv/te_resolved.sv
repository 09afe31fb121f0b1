// Resolved branches on their way to commit.
//
// The branch unit reports a branch or jump some cycles before it commits. The oldest records wait here; lane 0 of the
// output is the oldest, lane 1 the one after it. `pop` removes as many as were matched. When the queue is full the oldest
// record gives way. `flush` empties it: the core dropped what has not committed.
//
// The records at the outputs are in registers: what was matched in this cycle only chooses those of the next one, among these
// registers, as many records after them, and the one that comes in.

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

    localparam int PORTS = te_pkg::PORTS;
    localparam int POP = $clog2(PORTS + 1);
    localparam int PICK = $clog2(PORTS + 2);

    logic [WIDTH-1:0] records [te_pkg::RESOLVED_DEPTH];
    logic [WIDTH-1:0] incoming;
    logic [INDEX-1:0] head, tail;
    logic [INDEX:0]   level, left;
    logic             drop;
    logic [POP-1:0]   gone;           // records that leave
    logic [PORTS*WIDTH-1:0]   oldest, later;
    logic [2*PORTS*WIDTH-1:0] all;
    assign incoming = {resolved_kind, resolved_taken, resolved_pc};
    assign left = level - (INDEX + 1)'(pop);
    assign drop = resolved_valid && level == (INDEX + 1)'(te_pkg::RESOLVED_DEPTH) && pop == '0;
    assign gone = drop ? POP'(1) : pop;
    assign all = {later, oldest};

    always_ff @(posedge clk) begin
        if (resolved_valid) records[tail] <= incoming;
        if (rst || flush) begin
            head <= '0;
            tail <= '0;
            level <= '0;
        end else begin
            head <= head + INDEX'(gone);
            tail <= tail + INDEX'(resolved_valid);
            level <= left + (INDEX + 1)'(resolved_valid && !drop);
        end
    end

    for (genvar i = 0; i < PORTS; i++) begin : g_lane
        logic [INDEX-1:0] index;
        assign index = head + INDEX'(PORTS + i);
        assign later[WIDTH*i+:WIDTH] = records[index];
        assign valid[i] = level > (INDEX + 1)'(i);
        assign {kind[2*i+:2], taken[i], pc[te_pkg::IADDR*i+:te_pkg::IADDR]} = oldest[WIDTH*i+:WIDTH];

        // The record so many places on comes here, or the one that comes in. For that each number that may leave is looked at
        // before it is known which it is.
        logic [PICK-1:0]  pick;
        logic [WIDTH-1:0] next;
        always_comb begin
            pick = PICK'(gone);
            for (int j = 0; j <= PORTS; j++) if (pop == POP'(j) && level == (INDEX + 1)'(i + j)) pick = PICK'(PORTS + 1);
            next = incoming;
            for (int j = 0; j <= PORTS; j++) if (pick == PICK'(j)) next = all[WIDTH*(i+j)+:WIDTH];
        end
        always_ff @(posedge clk) oldest[WIDTH*i+:WIDTH] <= next;
    end

endmodule
