// The connector: blocks from what the commit ports retire (te_commit).
//
// Plain instructions are counted into the block under way; one that may change the flow, or a trap, ends it. All ports are
// looked at in one cycle, so a block can end at each of them. Slot i + 1 of the output is the block that ended at port i;
// slot 0 the one that ended before all of them, because this cycle does not continue it, or tracing ends. A block that would be
// too long with port i ends before it, in slot i.
//
// A block begins where the one under way began, or at a port; it is as long as that, or begins with 0, and what this cycle adds.
// Slots say which (slot_from, slot_same, slot_grown): the address is chosen and the sum made when the block is handed on.

module te_connector (
    input  logic clk,
    input  logic rst,
    // From te_commit.
    input  logic                                     enable,        // low: tracing ends
    input  logic [te_pkg::PORTS-1:0]                 counts,
    input  logic                                     traps,
    input  logic [te_pkg::PORTS*te_pkg::IADDR-1:0]   pc,
    input  logic [te_pkg::PORTS-1:0]                 compressed,
    input  logic [te_pkg::PORTS-1:0]                 commit_sijump,
    input  logic [te_pkg::PORTS-1:0]                 special,
    input  logic [4*te_pkg::PORTS-1:0]               itype,
    input  logic                                     apart,
    input  logic [1:0]                               ctype,
    // Blocks. Privilege, context and time are those of the cycle (te_commit), of slot 0 those of the cycle before.
    output logic [te_pkg::PORTS:0]                   slot_valid,
    output logic [te_pkg::IADDR-1:0]                 under_way,     // where the block before this cycle began
    output logic [te_pkg::RETIRE-1:0]                so_far,        // half-words that it had; 0 if there was none
    output logic [(te_pkg::PORTS+1)*(te_pkg::PORTS+1)-1:0] slot_from, // begins there (bit 0), or at port j (bit j + 1)
    output logic [te_pkg::PORTS:0]                   slot_same,     // is the block of the cycle before
    output logic [(te_pkg::PORTS+1)*te_pkg::GROWTH-1:0] slot_grown, // half-words of this cycle
    output logic [te_pkg::PORTS:0]                   slot_ilastsize,
    output logic [4*(te_pkg::PORTS+1)-1:0]           slot_itype,
    output logic [te_pkg::PORTS:0]                   slot_sijump,
    output logic [2*(te_pkg::PORTS+1)-1:0]           slot_ctype,
    output logic [te_pkg::COUNT*(te_pkg::PORTS+1)-1:0] slot_cycles,
    output logic                                     ended          // tracing ended, after the blocks of this cycle
);

    localparam int A = te_pkg::IADDR;
    localparam int R = te_pkg::RETIRE;
    localparam int C = te_pkg::COUNT;
    localparam int PORTS = te_pkg::PORTS;
    localparam int SOURCES = PORTS + 1;
    localparam int GROWTH = te_pkg::GROWTH;

    // The block under way, if there is one.
    logic         open;
    logic         ilastsize, sijump;
    logic [1:0]   block_ctype;
    logic [C-1:0] cycles, cycles_now;
    logic         enabled;

    // Does something end the block before the first port is looked at?
    logic early;
    assign early = open && (!enable || apart);
    assign cycles_now = cycles + C'(cycles != '1);

    // One step for each port: n_ is the state after it.
    localparam int MARGIN = 1 << GROWTH;
    logic               n_open, same;
    logic [SOURCES-1:0] n_from;
    logic [GROWTH-1:0]  grown;
    logic [A-1:0]       n_iaddr;
    logic               n_ilastsize, n_sijump;
    logic [1:0]         n_ctype;
    logic               unspent;        // no block of this cycle has the cycles counted so far
    logic               cut, here;

    // Half-words until the block is too long, as far as it can grow in a cycle.
    logic            near;
    logic [GROWTH:0] left;
    assign near = so_far > te_pkg::LONGEST - R'(MARGIN);
    assign left = (GROWTH + 1)'(te_pkg::LONGEST) - so_far[GROWTH:0];

    always_comb begin
        n_open = open && !early;
        same = n_open;
        grown = '0;
        n_from = SOURCES'(1);
        n_ilastsize = ilastsize;
        n_sijump = sijump;
        n_ctype = early ? te_pkg::CTYPE_UNREPORTED : block_ctype;
        unspent = 1'b1;
        cut = 1'b0;
        here = 1'b0;
        slot_valid = '0;
        slot_from = '0;
        slot_same = '0;
        slot_grown = '0;
        slot_ilastsize = '0;
        slot_itype = '0;
        slot_sijump = '0;
        slot_ctype = '0;
        slot_cycles = '0;
        slot_valid[0] = early;
        slot_from[0] = 1'b1;
        slot_same[0] = 1'b1;
        slot_ilastsize[0] = ilastsize;
        slot_ctype[1:0] = block_ctype;
        slot_cycles[C-1:0] = cycles;
        for (int i = 0; i < PORTS; i++) begin
            here = counts[i] || (i == 0 && traps);
            cut = counts[i] && same && near && {1'b0, grown} + (compressed[i] ? (GROWTH + 1)'(1) : (GROWTH + 1)'(2)) > left;
            if (cut) begin
                // Nothing ended before in this cycle: the slot of the port before has the block as it is, and no type.
                slot_valid[i] = 1'b1;
                if (i == 0) slot_cycles[C-1:0] = cycles_now;
                n_open = 1'b0;
                same = 1'b0;
                grown = '0;
                n_ctype = te_pkg::CTYPE_UNREPORTED;
                unspent = 1'b0;
            end
            if (here && !n_open) n_from = SOURCES'(1) << (i + 1);
            // The first block after a change reports it.
            if (here && unspent && ctype != te_pkg::CTYPE_UNREPORTED) n_ctype = ctype;
            if (counts[i]) begin
                grown = grown + (compressed[i] ? GROWTH'(1) : GROWTH'(2));
                n_open = 1'b1;
                n_ilastsize = !compressed[i];
                n_sijump = commit_sijump[i];
            end

            slot_valid[i+1] = special[i];
            slot_from[SOURCES*(i+1)+:SOURCES] = n_from;
            slot_same[i+1] = same;
            slot_grown[GROWTH*(i+1)+:GROWTH] = grown;
            slot_ilastsize[i+1] = n_ilastsize;
            slot_itype[4*(i+1)+:4] = special[i] ? itype[4*i+:4] : te_pkg::ITYPE_NONE;
            slot_sijump[i+1] = n_sijump;
            slot_ctype[2*(i+1)+:2] = n_ctype;
            slot_cycles[C*(i+1)+:C] = !unspent ? '0 : early ? C'(1) : cycles_now;
            if (special[i]) begin
                n_open = 1'b0;
                same = 1'b0;
                grown = '0;
                n_sijump = 1'b0;
                n_ctype = te_pkg::CTYPE_UNREPORTED;
                unspent = 1'b0;
            end
        end
        n_iaddr = {A{n_from[0]}} & under_way;
        for (int i = 0; i < PORTS; i++) n_iaddr |= {A{n_from[i+1]}} & pc[A*i+:A];
    end

    assign ended = enabled && !enable;

    always_ff @(posedge clk) begin
        under_way <= n_iaddr;
        ilastsize <= n_ilastsize;
        sijump <= n_sijump;
        if (rst) begin
            open <= 1'b0;
            so_far <= '0;
            block_ctype <= te_pkg::CTYPE_UNREPORTED;
            cycles <= '0;
            enabled <= 1'b0;
        end else begin
            open <= n_open;
            so_far <= (same ? so_far : '0) + R'(grown);
            block_ctype <= n_ctype;
            enabled <= enable;
            // The cycle in which slot 0 was ended early belongs to the next block.
            if (!enable || !unspent) cycles <= '0;
            else cycles <= early ? C'(1) : cycles_now;
        end
    end

endmodule
