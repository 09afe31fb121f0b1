// The connector: blocks from what the commit ports retire (te_commit).
//
// Plain instructions are counted into the block under way; one that may change the flow, or a trap, ends it. All ports are
// looked at in one cycle, so a block can end at each of them. Slot i + 1 of the output is the block that ended at port i;
// slot 0 the one that ended before all of them, because this cycle does not continue it, the block was too long, or tracing
// ends.

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
    input  logic [te_pkg::PRIV-1:0]                  priv,
    input  logic [te_pkg::CONTEXT-1:0]               context_id,
    input  logic [1:0]                               ctype,
    input  logic [te_pkg::TIME-1:0]                  core_time,
    input  logic [te_pkg::PRIV-1:0]                  before_priv,
    input  logic [te_pkg::CONTEXT-1:0]               before_context,
    input  logic [te_pkg::TIME-1:0]                  before_time,
    // Blocks.
    output logic [te_pkg::PORTS:0]                   slot_valid,
    output logic [(te_pkg::PORTS+1)*te_pkg::IADDR-1:0]  slot_iaddr,
    output logic [(te_pkg::PORTS+1)*te_pkg::RETIRE-1:0] slot_iretire,
    output logic [te_pkg::PORTS:0]                   slot_ilastsize,
    output logic [4*(te_pkg::PORTS+1)-1:0]           slot_itype,
    output logic [te_pkg::PORTS:0]                   slot_sijump,
    output logic [2*(te_pkg::PORTS+1)-1:0]           slot_ctype,
    output logic [te_pkg::COUNT*(te_pkg::PORTS+1)-1:0] slot_cycles,
    // Of slot 0; the others have what the ports share in this cycle.
    output logic [te_pkg::PRIV-1:0]                  early_priv,
    output logic [te_pkg::CONTEXT-1:0]               early_context,
    output logic [te_pkg::TIME-1:0]                  early_time,
    output logic                                     ended          // tracing ended, after the blocks of this cycle
);

    localparam int A = te_pkg::IADDR;
    localparam int R = te_pkg::RETIRE;
    localparam int C = te_pkg::COUNT;
    localparam int PORTS = te_pkg::PORTS;

    // The block under way, if there is one.
    logic         open;
    logic [A-1:0] iaddr;                // where it begins
    logic [R-1:0] iretire;              // half-words; 0 if there is none
    logic         ilastsize, sijump;
    logic [1:0]   block_ctype;
    logic [C-1:0] cycles, cycles_now;
    logic         enabled;

    // Does something end the block before the first port is looked at?
    logic early;
    assign early = open && (!enable || apart);
    assign cycles_now = cycles + C'(cycles != '1);

    // One step for each port: n_ is the state after it. Sums are not on the way from port to port: what is is whether the block
    // is the one of the cycle before, and the half-words that this cycle adds.
    localparam int GROWTH = $clog2(2 * PORTS + 1);
    localparam int MARGIN = 1 << GROWTH;
    logic              n_open, same;
    logic [GROWTH-1:0] grown, at_cut;
    logic [A-1:0]      n_iaddr;
    logic              n_ilastsize, n_sijump;
    logic [1:0]        n_ctype;
    logic              unspent;         // no block of this cycle has the cycles counted so far
    logic              cut, here;
    logic [R-1:0]      n_iretire;

    function automatic [R-1:0] retired(input [R-1:0] so_far, input is_same, input [GROWTH-1:0] more);
        retired = (is_same ? so_far : '0) + R'(more);
    endfunction

    // Half-words until the block is too long, as far as it can grow in a cycle.
    logic            near;
    logic [GROWTH:0] left;
    assign near = iretire > te_pkg::LONGEST - R'(MARGIN);
    assign left = (GROWTH + 1)'(te_pkg::LONGEST) - iretire[GROWTH:0];

    always_comb begin
        n_open = open && !early;
        same = n_open;
        grown = '0;
        at_cut = '0;
        n_iaddr = iaddr;
        n_ilastsize = ilastsize;
        n_sijump = sijump;
        n_ctype = early ? te_pkg::CTYPE_UNREPORTED : block_ctype;
        unspent = 1'b1;
        cut = 1'b0;
        here = 1'b0;
        slot_valid = '0;
        slot_iaddr = '0;
        slot_iretire = '0;
        slot_ilastsize = '0;
        slot_itype = '0;
        slot_sijump = '0;
        slot_ctype = '0;
        slot_cycles = '0;
        slot_valid[0] = early;
        slot_iaddr[A-1:0] = iaddr;
        slot_ilastsize[0] = ilastsize;
        slot_ctype[1:0] = block_ctype;
        slot_cycles[C-1:0] = cycles;
        early_priv = before_priv;
        early_context = before_context;
        early_time = before_time;
        for (int i = 0; i < PORTS; i++) begin
            here = counts[i] || (i == 0 && traps);
            cut = counts[i] && same && near && {1'b0, grown} + (compressed[i] ? (GROWTH + 1)'(1) : (GROWTH + 1)'(2)) > left;
            if (cut) begin
                // Nothing ended before in this cycle; the block may have grown in it.
                slot_valid[0] = 1'b1;
                slot_ilastsize[0] = n_ilastsize;
                slot_ctype[1:0] = n_ctype;
                slot_cycles[C-1:0] = cycles_now;
                at_cut = grown;
                if (i > 0) begin
                    early_priv = priv;
                    early_context = context_id;
                    early_time = core_time;
                end
                n_open = 1'b0;
                same = 1'b0;
                grown = '0;
                n_ctype = te_pkg::CTYPE_UNREPORTED;
                unspent = 1'b0;
            end
            if (here && !n_open) n_iaddr = pc[A*i+:A];
            // The first block after a change reports it.
            if (here && unspent && ctype != te_pkg::CTYPE_UNREPORTED) n_ctype = ctype;
            if (counts[i]) begin
                grown = grown + (compressed[i] ? GROWTH'(1) : GROWTH'(2));
                n_open = 1'b1;
                n_ilastsize = !compressed[i];
                n_sijump = commit_sijump[i];
            end

            slot_valid[i+1] = special[i];
            slot_iaddr[A*(i+1)+:A] = n_iaddr;
            slot_iretire[R*(i+1)+:R] = retired(iretire, same, grown);
            slot_ilastsize[i+1] = n_ilastsize;
            slot_itype[4*(i+1)+:4] = itype[4*i+:4];
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
        slot_iretire[R-1:0] = iretire + R'(at_cut);
        n_iretire = retired(iretire, same, grown);
    end

    assign ended = enabled && !enable;

    always_ff @(posedge clk) begin
        iaddr <= n_iaddr;
        ilastsize <= n_ilastsize;
        sijump <= n_sijump;
        if (rst) begin
            open <= 1'b0;
            iretire <= '0;
            block_ctype <= te_pkg::CTYPE_UNREPORTED;
            cycles <= '0;
            enabled <= 1'b0;
        end else begin
            open <= n_open;
            iretire <= n_iretire;
            block_ctype <= n_ctype;
            enabled <= enable;
            // The cycle in which slot 0 was ended early belongs to the next block.
            if (!enable || !unspent) cycles <= '0;
            else cycles <= early ? C'(1) : cycles_now;
        end
    end

endmodule
