// The connector: blocks from the commit ports of a core.
//
// Plain instructions are counted into the block under way; one that may change the flow, or a trap, ends it. All ports are
// looked at in one cycle, so a block can end at each of them. Slot i + 1 of the output is the block that ended at port i;
// slot 0 the one that ended before all of them, because privilege or context changed, the trap happened elsewhere, the
// block was too long, or tracing ends. With a trap only port 0 is looked at.

module te_connector (
    input  logic clk,
    input  logic rst,
    input  logic enable,                                            // low: tracing ends
    // Commit ports, the oldest instruction first.
    input  logic [te_pkg::PORTS-1:0]                 commit_valid,
    input  logic [te_pkg::PORTS*te_pkg::IADDR-1:0]   commit_pc,
    input  logic [3*te_pkg::PORTS-1:0]               commit_op,
    input  logic [4*te_pkg::PORTS-1:0]               commit_itype,
    input  logic [te_pkg::PORTS-1:0]                 commit_compressed,
    input  logic [te_pkg::PORTS-1:0]                 commit_sijump,
    // The branch unit, at least one cycle before commit; the core's pipeline is flushed.
    input  logic                                     resolved_valid,
    input  logic [te_pkg::IADDR-1:0]                 resolved_pc,
    input  logic                                     resolved_taken,
    input  logic [1:0]                               resolved_kind,
    input  logic                                     flush,
    // A trap, after the instruction at port 0 if there is one; else port 0 has its address.
    input  logic                                     trap_valid,
    input  logic                                     trap_interrupt,
    input  logic [te_pkg::IADDR-1:0]                 trap_tval,
    // For all ports.
    input  logic [te_pkg::PRIV-1:0]                  priv,
    input  logic [te_pkg::CONTEXT-1:0]               context_id,
    input  logic [1:0]                               ctype,
    input  logic [te_pkg::TIME-1:0]                  core_time,
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
    output logic [te_pkg::IADDR-1:0]                 tval,          // of a trap; 0 for interrupts
    output logic                                     ended          // tracing ended, after the blocks of this cycle
);

    localparam int A = te_pkg::IADDR;
    localparam int R = te_pkg::RETIRE;
    localparam int C = te_pkg::COUNT;
    localparam int PORTS = te_pkg::PORTS;

    // The block under way. iretire 0: there is none.
    logic [A-1:0] iaddr, block_end;     // where it begins, and where it ends for now
    logic [R-1:0] iretire;
    logic         ilastsize, sijump;
    logic [1:0]   block_ctype;
    logic [te_pkg::PRIV-1:0]    block_priv;
    logic [te_pkg::CONTEXT-1:0] block_context;
    logic [te_pkg::TIME-1:0]    block_time;
    logic [C-1:0] cycles, cycles_now;
    logic         enabled;

    // Records of the branch unit.
    localparam int POP = $clog2(PORTS + 1);
    logic [PORTS-1:0]   record_valid, record_taken;
    logic [PORTS*A-1:0] record_pc;
    logic [2*PORTS-1:0] record_kind;
    logic [POP-1:0]     pop;
    te_resolved resolved (
        .clk, .rst, .flush, .resolved_valid, .resolved_pc, .resolved_taken, .resolved_kind, .pop,
        .valid(record_valid), .pc(record_pc), .taken(record_taken), .kind(record_kind)
    );

    // Does something end the block before the first port is looked at?
    logic any, early, elsewhere;
    assign any = |commit_valid || trap_valid;
    assign elsewhere = trap_valid && commit_pc[A-1:0] != block_end;
    assign early = iretire != '0
        && (!enable || any && (priv != block_priv || context_id != block_context || elsewhere));
    assign cycles_now = cycles + C'(cycles != '1);

    // One step for each port: n_ is the state after it.
    logic [A-1:0] n_iaddr, pc;
    logic [A-1:0] last_pc;              // of the last instruction of this cycle
    logic         last_compressed, any_counts;
    logic [R-1:0] n_iretire, sum, size;
    logic         n_ilastsize, n_sijump;
    logic [1:0]   n_ctype;
    logic         unspent;              // no block of this cycle has the cycles counted so far
    logic         counts, traps, special, cut, found, hit_taken;
    logic [1:0]   hit_kind;
    logic [3:0]   itype;

    always_comb begin
        n_iaddr = iaddr;
        last_pc = '0;
        last_compressed = 1'b0;
        any_counts = 1'b0;
        n_iretire = early ? '0 : iretire;
        n_ilastsize = ilastsize;
        n_sijump = sijump;
        n_ctype = early ? te_pkg::CTYPE_UNREPORTED : block_ctype;
        unspent = 1'b1;
        pop = '0;
        pc = '0;
        sum = '0;
        size = '0;
        counts = 1'b0;
        traps = 1'b0;
        special = 1'b0;
        cut = 1'b0;
        found = 1'b0;
        hit_taken = 1'b0;
        hit_kind = 2'b0;
        itype = te_pkg::ITYPE_NONE;
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
        slot_iretire[R-1:0] = iretire;
        slot_ilastsize[0] = ilastsize;
        slot_ctype[1:0] = block_ctype;
        slot_cycles[C-1:0] = cycles;
        early_priv = block_priv;
        early_context = block_context;
        early_time = block_time;
        for (int i = 0; i < PORTS; i++) begin
            pc = commit_pc[A*i+:A];
            counts = enable && commit_valid[i] && (i == 0 || !trap_valid);
            traps = enable && i == 0 && trap_valid;

            // The record that comes next may be of this instruction.
            found = 1'b0;
            hit_taken = 1'b0;
            hit_kind = 2'b0;
            for (int j = 0; j <= i; j++) begin
                if (pop == POP'(j) && record_valid[j] && record_pc[A*j+:A] == pc && counts && !traps) begin
                    found = 1'b1;
                    hit_taken = record_taken[j];
                    hit_kind = record_kind[2*j+:2];
                end
            end
            pop = pop + POP'(found);
            itype = te_pkg::detect(commit_op[3*i+:3], commit_itype[4*i+:4], found, hit_taken, hit_kind);
            special = traps || counts && itype != te_pkg::ITYPE_NONE;

            size = commit_compressed[i] ? R'(1) : R'(2);
            sum = n_iretire + size;
            cut = counts && sum > te_pkg::LONGEST;
            if (cut) begin
                // Nothing ended before in this cycle; the block may have grown in it.
                slot_valid[0] = 1'b1;
                slot_iretire[R-1:0] = n_iretire;
                slot_ilastsize[0] = n_ilastsize;
                slot_ctype[1:0] = n_ctype;
                slot_cycles[C-1:0] = cycles_now;
                if (i > 0) begin
                    early_priv = priv;
                    early_context = context_id;
                    early_time = core_time;
                end
                n_iretire = '0;
                n_ctype = te_pkg::CTYPE_UNREPORTED;
                unspent = 1'b0;
            end
            if ((counts || traps) && n_iretire == '0) n_iaddr = pc;
            // The first block after a change reports it.
            if ((counts || traps) && unspent && ctype != te_pkg::CTYPE_UNREPORTED) n_ctype = ctype;
            if (counts) begin
                n_iretire = n_iretire + size;
                last_pc = pc;
                last_compressed = commit_compressed[i];
                any_counts = 1'b1;
                n_ilastsize = !commit_compressed[i];
                n_sijump = commit_sijump[i];
            end

            slot_valid[i+1] = special;
            slot_iaddr[A*(i+1)+:A] = n_iaddr;
            slot_iretire[R*(i+1)+:R] = n_iretire;
            slot_ilastsize[i+1] = n_ilastsize;
            slot_sijump[i+1] = n_sijump;
            slot_ctype[2*(i+1)+:2] = n_ctype;
            slot_cycles[C*(i+1)+:C] = !unspent ? '0 : early ? C'(1) : cycles_now;
            if (traps) slot_itype[4*(i+1)+:4] = trap_interrupt ? te_pkg::ITYPE_INTERRUPT : te_pkg::ITYPE_EXCEPTION;
            else slot_itype[4*(i+1)+:4] = te_pkg::NARROW_ITYPE ? te_pkg::narrow(itype) : itype;
            if (special) begin
                n_iretire = '0;
                n_sijump = 1'b0;
                n_ctype = te_pkg::CTYPE_UNREPORTED;
                unspent = 1'b0;
            end
        end
    end

    assign tval = trap_interrupt ? '0 : trap_tval;
    assign ended = enabled && !enable;

    always_ff @(posedge clk) begin
        iaddr <= n_iaddr;
        // The instructions of a block follow each other, so that it ends where the last of them does.
        if (any_counts) block_end <= last_pc + (last_compressed ? A'(2) : A'(4));
        ilastsize <= n_ilastsize;
        sijump <= n_sijump;
        if (any) begin
            block_priv <= priv;
            block_context <= context_id;
            block_time <= core_time;
        end
        if (rst) begin
            iretire <= '0;
            block_ctype <= te_pkg::CTYPE_UNREPORTED;
            cycles <= '0;
            enabled <= 1'b0;
        end else begin
            iretire <= n_iretire;
            block_ctype <= n_ctype;
            enabled <= enable;
            // The cycle in which slot 0 was ended early belongs to the next block.
            if (!enable || !unspent) cycles <= '0;
            else cycles <= early ? C'(1) : cycles_now;
        end
    end

endmodule
