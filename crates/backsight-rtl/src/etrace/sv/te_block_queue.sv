// Cycles in which blocks ended wait here; their blocks come out one by one, the oldest first.
//
// What ended in a cycle is held in registers first: the connector's path ends there. Then it waits in block RAM: entries are
// wide. The block that is handed on is in registers too: block RAM is slow, and a filter may follow.
//
// When there is no room the blocks of a cycle are lost, and a gap is handed on before the next ones. `stall` asks the hart
// to wait in time: it may still commit for as many cycles as are left (te_pkg::STALL_AT).

module te_block_queue (
    input  logic clk,
    input  logic rst,
    output logic stall,
    // From the connector.
    input  logic [te_pkg::PORTS:0]                      slot_valid,
    input  logic [te_pkg::IADDR-1:0]                    under_way,
    input  logic [te_pkg::PORTS*te_pkg::IADDR-1:0]      pc,
    input  logic [te_pkg::RETIRE-1:0]                   so_far,
    input  logic [(te_pkg::PORTS+1)*(te_pkg::PORTS+1)-1:0] slot_from,
    input  logic [te_pkg::PORTS:0]                      slot_same,
    input  logic [(te_pkg::PORTS+1)*te_pkg::GROWTH-1:0] slot_grown,
    input  logic [te_pkg::PORTS:0]                      slot_ilastsize,
    input  logic [4*(te_pkg::PORTS+1)-1:0]              slot_itype,
    input  logic [te_pkg::PORTS:0]                      slot_sijump,
    input  logic [2*(te_pkg::PORTS+1)-1:0]              slot_ctype,
    input  logic [te_pkg::COUNT*(te_pkg::PORTS+1)-1:0]  slot_cycles,
    input  logic [te_pkg::PRIV-1:0]                     before_priv,    // of slot 0; the others have those of this cycle
    input  logic [te_pkg::CONTEXT-1:0]                  before_context,
    input  logic [te_pkg::TIME-1:0]                     before_time,
    input  logic [te_pkg::PRIV-1:0]                     priv,
    input  logic [te_pkg::CONTEXT-1:0]                  context_id,
    input  logic [te_pkg::TIME-1:0]                     core_time,
    input  logic [te_pkg::ECAUSE-1:0]                   cause,
    input  logic [te_pkg::IADDR-1:0]                    tval,
    input  logic                                        ended,
    // One block, gap or end at a time.
    output logic                        out_valid,
    input  logic                        out_ready,
    output logic [1:0]                  out_kind,
    output logic [te_pkg::IADDR-1:0]    out_iaddr,
    output logic [te_pkg::RETIRE-1:0]   out_iretire,
    output logic                        out_ilastsize,
    output logic [3:0]                  out_itype,
    output logic                        out_sijump,
    output logic [1:0]                  out_ctype,
    output logic [te_pkg::COUNT-1:0]    out_cycles,
    output logic [te_pkg::PRIV-1:0]     out_priv,
    output logic [te_pkg::CONTEXT-1:0]  out_context,
    output logic [te_pkg::TIME-1:0]     out_time,
    output logic [te_pkg::ECAUSE-1:0]   out_cause,
    output logic [te_pkg::IADDR-1:0]    out_tval
);

    localparam int A = te_pkg::IADDR;
    localparam int R = te_pkg::RETIRE;
    localparam int C = te_pkg::COUNT;
    localparam int G = te_pkg::GROWTH;
    localparam int SLOTS = te_pkg::PORTS + 1;           // as many as there are addresses at which a block can begin
    localparam int INDEX = $clog2(te_pkg::BLOCK_DEPTH);
    localparam int SLOT = SLOTS + 1 + G + 1 + 4 + 1 + 2 + C;
    localparam int SHARED = SLOTS * A + R + 2 * (te_pkg::PRIV + te_pkg::CONTEXT + te_pkg::TIME) + te_pkg::ECAUSE + A;
    localparam int TODO = SLOTS + 2;

    // What the connector gave in the cycle before. Synthesis cannot see that nothing reads some bits of a block RAM: what this
    // encoder has no use for is 0.
    localparam logic COUNTS_CYCLES = te_pkg::RESYNC == te_pkg::RESYNC_CYCLES;
    localparam int HELD = SLOTS * SLOT + SHARED;
    logic [HELD-1:0]  held;
    logic [SLOTS-1:0] held_valid;
    logic             held_ended;
    always_ff @(posedge clk) begin
        held <= {slot_from, slot_same, slot_grown, slot_ilastsize, slot_itype, te_pkg::SIJUMP ? slot_sijump : '0, slot_ctype,
            COUNTS_CYCLES ? slot_cycles : '0, pc, under_way, so_far, before_priv, priv, before_context, context_id, before_time,
            core_time, cause, tval};
        held_valid <= rst ? '0 : slot_valid;
        held_ended <= ended && !rst;
    end

    // Entries: the slots and what they share; and what there is to hand on, which is asked for at once: whether the end comes
    // after, which slots are valid, whether a gap comes before. `head` and `tail` go round twice before they are 0 again:
    // they are equal when there is no entry.
    (* ram_style = "block" *)       logic [HELD-1:0] entries [te_pkg::BLOCK_DEPTH];
    (* ram_style = "distributed" *) logic [TODO-1:0] todos   [te_pkg::BLOCK_DEPTH];
    logic [HELD-1:0]  front;
    logic [INDEX:0]   head, tail, level;
    logic             full, write, read, missed, end_waits;

    assign level = tail - head;
    assign full = level == (INDEX + 1)'(te_pkg::BLOCK_DEPTH);
    assign write = !full && (|held_valid || held_ended || end_waits);
    assign stall = level >= (INDEX + 1)'(te_pkg::STALL_AT);

    always_ff @(posedge clk) begin
        if (write) begin
            entries[tail[INDEX-1:0]] <= held;
            todos[tail[INDEX-1:0]] <= {held_ended || end_waits, held_valid, missed};
        end
        if (rst) begin
            head <= '0;
            tail <= '0;
            missed <= 1'b0;
            end_waits <= 1'b0;
        end else begin
            head <= head + (INDEX + 1)'(read);
            tail <= tail + (INDEX + 1)'(write);
            missed <= !write && (missed || full && |held_valid);
            end_waits <= full && (end_waits || held_ended);
        end
    end

    // The entry whose blocks are handed on, and what of it is still to be handed on: gap, slots, end.
    logic [SLOTS*A-1:0]     iaddr;
    logic [R-1:0]           iretire;
    logic [SLOTS*SLOTS-1:0] from;
    logic [SLOTS*G-1:0]     grown;
    logic [SLOTS-1:0]       same, ilastsize, sijump, pick;
    logic [4*SLOTS-1:0]     itype;
    logic [2*SLOTS-1:0]     ctype;
    logic [C*SLOTS-1:0]     cycles;
    logic [te_pkg::PRIV-1:0]    front_before_priv, front_priv;
    logic [te_pkg::CONTEXT-1:0] front_before_context, front_context;
    logic [te_pkg::TIME-1:0]    front_before_time, front_time;
    logic [te_pkg::ECAUSE-1:0]  front_cause;
    logic [A-1:0]               front_tval;
    logic [TODO-1:0] todo, first, rest;
    logic            takes;
    assign takes = !out_valid || out_ready;

    assign {from, same, grown, ilastsize, itype, sijump, ctype, cycles, iaddr, iretire, front_before_priv, front_priv,
        front_before_context, front_context, front_before_time, front_time, front_cause, front_tval} = front;
    assign first = todo & (~todo + TODO'(1));
    assign rest = todo & ~first;
    assign pick = first[SLOTS:1];
    assign read = head != tail && (todo == '0 || takes && rest == '0);

    always_ff @(posedge clk) begin
        if (read) front <= entries[head[INDEX-1:0]];
        if (rst) todo <= '0;
        else if (read) todo <= todos[head[INDEX-1:0]];
        else if (takes) todo <= rest;
    end

    // The slot that is handed on next.
    logic [SLOTS-1:0] picked_from;
    logic             picked_same, picked_ilastsize, picked_sijump;
    logic [G-1:0]     picked_grown;
    logic [A-1:0]     picked_iaddr;
    logic [3:0]       picked_itype;
    logic [1:0]       picked_ctype;
    logic [C-1:0]     picked_cycles;
    always_comb begin
        picked_from = '0;
        picked_same = 1'b0;
        picked_grown = '0;
        picked_ilastsize = 1'b0;
        picked_itype = '0;
        picked_sijump = 1'b0;
        picked_ctype = '0;
        picked_cycles = '0;
        for (int i = 0; i < SLOTS; i++) begin
            picked_from |= {SLOTS{pick[i]}} & from[SLOTS*i+:SLOTS];
            picked_same |= pick[i] & same[i];
            picked_grown |= {G{pick[i]}} & grown[G*i+:G];
            picked_ilastsize |= pick[i] & ilastsize[i];
            picked_itype |= {4{pick[i]}} & itype[4*i+:4];
            picked_sijump |= pick[i] & sijump[i];
            picked_ctype |= {2{pick[i]}} & ctype[2*i+:2];
            picked_cycles |= {C{pick[i]}} & cycles[C*i+:C];
        end
        picked_iaddr = '0;
        for (int i = 0; i < SLOTS; i++) picked_iaddr |= {A{picked_from[i]}} & iaddr[A*i+:A];
    end

    always_ff @(posedge clk) begin
        if (rst) out_valid <= 1'b0;
        else if (takes) out_valid <= todo != '0;
        if (takes) begin
            out_kind <= first[0] ? te_pkg::IN_GAP : |pick ? te_pkg::IN_BLOCK : te_pkg::IN_END;
            out_iaddr <= picked_iaddr;
            out_iretire <= (picked_same ? iretire : '0) + R'(picked_grown);
            out_ilastsize <= picked_ilastsize;
            out_itype <= picked_itype;
            out_sijump <= picked_sijump;
            out_ctype <= picked_ctype;
            out_cycles <= picked_cycles;
            out_priv <= pick[0] ? front_before_priv : front_priv;
            out_context <= pick[0] ? front_before_context : front_context;
            out_time <= pick[0] ? front_before_time : front_time;
            out_cause <= front_cause;
            out_tval <= front_tval;
        end
    end

endmodule
