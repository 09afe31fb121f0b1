// What the commit ports of a core retire in a cycle, as te_connector needs it one cycle later.
//
// All that depends on the ports alone is decided here: the types of instructions, with the records of the branch unit, and
// whether this cycle does not continue the one before, because privilege or context changed or a trap happened elsewhere.
// With a trap only port 0 is looked at.

module te_commit (
    input  logic clk,
    input  logic rst,
    input  logic enable,
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
    input  logic [te_pkg::ECAUSE-1:0]                trap_cause,
    input  logic [te_pkg::IADDR-1:0]                 trap_tval,
    // For all ports.
    input  logic [te_pkg::PRIV-1:0]                  priv,
    input  logic [te_pkg::CONTEXT-1:0]               context_id,
    input  logic [1:0]                               ctype,
    input  logic [te_pkg::TIME-1:0]                  core_time,
    // One cycle later: what retires at each port, and what ends a block there.
    output logic                                     now_enabled,
    output logic [te_pkg::PORTS-1:0]                 counts,
    output logic                                     traps,
    output logic [te_pkg::PORTS*te_pkg::IADDR-1:0]   pc,
    output logic [te_pkg::PORTS-1:0]                 compressed,
    output logic [te_pkg::PORTS-1:0]                 sijump,
    output logic [te_pkg::PORTS-1:0]                 special,    // a block ends there
    output logic [4*te_pkg::PORTS-1:0]               itype,      // with this type
    output logic                                     apart,      // the block under way does not go on in this cycle
    output logic [te_pkg::PRIV-1:0]                  now_priv,
    output logic [te_pkg::CONTEXT-1:0]               now_context,
    output logic [1:0]                               now_ctype,
    output logic [te_pkg::TIME-1:0]                  now_time,
    output logic [te_pkg::PRIV-1:0]                  before_priv, // of the cycle before in which something retired
    output logic [te_pkg::CONTEXT-1:0]               before_context,
    output logic [te_pkg::TIME-1:0]                  before_time,
    output logic [te_pkg::ECAUSE-1:0]                cause,
    output logic [te_pkg::IADDR-1:0]                 tval        // 0 for interrupts
);

    localparam int A = te_pkg::IADDR;
    localparam int PORTS = te_pkg::PORTS;

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

    // The last cycle in which something retired, and where its last instruction ended: a block goes on there.
    logic [te_pkg::PRIV-1:0]    last_priv;
    logic [te_pkg::CONTEXT-1:0] last_context;
    logic [te_pkg::TIME-1:0]    last_time;
    logic [A-1:0]               last_end, last_pc;
    logic                       any, any_counts, last_compressed;
    assign any = |commit_valid || trap_valid;

    logic               traps_s, found, hit_taken;
    logic [PORTS-1:0]   counts_s, special_s;
    logic [4*PORTS-1:0] itype_s;
    logic [3:0]         detected;
    logic [1:0]         hit_kind;
    assign traps_s = enable && trap_valid;
    always_comb begin
        pop = '0;
        any_counts = 1'b0;
        last_pc = '0;
        last_compressed = 1'b0;
        found = 1'b0;
        hit_taken = 1'b0;
        hit_kind = 2'b0;
        detected = te_pkg::ITYPE_NONE;
        counts_s = '0;
        special_s = '0;
        itype_s = '0;
        for (int i = 0; i < PORTS; i++) begin
            counts_s[i] = enable && commit_valid[i] && (i == 0 || !trap_valid);
            // The record that comes next may be of this instruction.
            found = 1'b0;
            hit_taken = 1'b0;
            hit_kind = 2'b0;
            for (int j = 0; j <= i; j++) begin
                if (pop == POP'(j) && record_valid[j] && record_pc[A*j+:A] == commit_pc[A*i+:A] && counts_s[i]
                    && !(i == 0 && trap_valid)) begin
                    found = 1'b1;
                    hit_taken = record_taken[j];
                    hit_kind = record_kind[2*j+:2];
                end
            end
            pop = pop + POP'(found);
            detected = te_pkg::detect(commit_op[3*i+:3], commit_itype[4*i+:4], found, hit_taken, hit_kind);
            special_s[i] = counts_s[i] && detected != te_pkg::ITYPE_NONE;
            itype_s[4*i+:4] = te_pkg::NARROW_ITYPE ? te_pkg::narrow(detected) : detected;
            if (counts_s[i]) begin
                any_counts = 1'b1;
                last_pc = commit_pc[A*i+:A];
                last_compressed = commit_compressed[i];
            end
        end
        if (traps_s) begin
            special_s[0] = 1'b1;
            itype_s[3:0] = trap_interrupt ? te_pkg::ITYPE_INTERRUPT : te_pkg::ITYPE_EXCEPTION;
        end
    end

    always_ff @(posedge clk) begin
        now_enabled <= enable && !rst;
        counts <= rst ? '0 : counts_s;
        traps <= traps_s && !rst;
        special <= rst ? '0 : special_s;
        pc <= commit_pc;
        compressed <= commit_compressed;
        sijump <= commit_sijump;
        itype <= itype_s;
        apart <= any && (priv != last_priv || context_id != last_context || trap_valid && commit_pc[A-1:0] != last_end);
        now_priv <= priv;
        now_context <= context_id;
        now_ctype <= ctype;
        now_time <= core_time;
        before_priv <= last_priv;
        before_context <= last_context;
        before_time <= last_time;
        cause <= trap_cause;
        tval <= trap_interrupt ? '0 : trap_tval;
        if (any) begin
            last_priv <= priv;
            last_context <= context_id;
            last_time <= core_time;
        end
        if (any_counts) last_end <= last_pc + (last_compressed ? A'(2) : A'(4));
    end

endmodule
