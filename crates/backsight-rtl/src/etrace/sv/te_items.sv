// What te_priority decides about: one retired instruction, or one trap, at a time.
//
// Of a block only the first and the last instruction can cause a packet, and the first only in some states (`every`); a
// trap after retired instructions is an item of its own. The item under decision (cur_) waits here until the one after it
// (next_) is known, or until it is known that there is none (next_valid low: a gap or the end).

module te_items (
    input  logic clk,
    input  logic rst,
    // Blocks.
    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic [1:0]                  in_kind,
    input  logic [te_pkg::IADDR-1:0]    in_iaddr,
    input  logic [te_pkg::RETIRE-1:0]   in_iretire,
    input  logic                        in_ilastsize,
    input  logic                        in_retired,     // an instruction or more
    input  logic                        in_single,      // one at most
    input  logic [3:0]                  in_itype,
    input  logic                        in_sijump,
    input  logic                        in_notify,
    input  logic [1:0]                  in_ctype,
    input  logic [te_pkg::COUNT-1:0]    in_cycles,
    input  logic [te_pkg::PRIV-1:0]     in_priv,
    input  logic [te_pkg::CONTEXT-1:0]  in_context,
    input  logic [te_pkg::TIME-1:0]     in_time,
    input  logic [te_pkg::ECAUSE-1:0]   in_cause,
    input  logic [te_pkg::IADDR-1:0]    in_tval,
    // From te_priority.
    input  logic                        every,          // the first instruction of a block may matter
    input  logic                        hold,           // the step goes on in the next cycle with the same items
    input  logic                        step,           // the item under decision is done with
    // Is there something to do: an item, a gap or the end?
    output logic                        have,
    output logic                        next_valid,
    output logic                        next_end,
    output logic                        next_trap,
    output logic [te_pkg::PRIV-1:0]     next_priv,
    output logic [1:0]                  next_ctype,
    output logic [te_pkg::CONTEXT-1:0]  next_context,
    output logic [te_pkg::IADDR-1:0]    next_target,    // its address, after an uninferable jump
    // The item under decision.
    output logic                        cur_valid,
    output logic [te_pkg::IADDR-1:0]    cur_address,
    output logic [te_pkg::IADDR-1:0]    cur_end,        // where a call returns to
    output logic                        cur_trap,       // a trap without retirement; else an instruction that retired
    output logic                        cur_interrupt,
    output logic [3:0]                  cur_itype,
    output logic                        cur_sijump,
    output logic                        cur_notify,
    output logic                        cur_inner,      // other instructions of its block come before it
    output logic [1:0]                  cur_ctype,
    output logic [te_pkg::COUNT-1:0]    cur_weight,
    output logic [te_pkg::PRIV-1:0]     cur_priv,
    output logic [te_pkg::CONTEXT-1:0]  cur_context,
    output logic [te_pkg::TIME-1:0]     cur_time,
    output logic [te_pkg::ECAUSE-1:0]   cur_cause,
    output logic [te_pkg::IADDR-1:0]    cur_tval
);

    localparam int A = te_pkg::IADDR;
    localparam int R = te_pkg::RETIRE;

    // Parts of the block that were handed on already.
    logic first_done, last_done;
    // Of a step that is held: whether the first instruction is skipped.
    logic held, held_skip;

    logic block, trap, skip_now, skip;
    logic is_first, is_last, empty;
    logic [R-1:0] last_size;
    assign block = in_valid && in_kind == te_pkg::IN_BLOCK;
    assign trap = in_itype == te_pkg::ITYPE_EXCEPTION || in_itype == te_pkg::ITYPE_INTERRUPT;
    assign last_size = in_ilastsize ? R'(2) : R'(1);
    assign skip_now = !(every || !cur_valid || in_ctype != te_pkg::CTYPE_UNREPORTED || in_priv != cur_priv || cur_trap
        || te_pkg::is_uninferable(cur_itype));
    assign skip = held ? held_skip : skip_now;
    assign is_first = !next_trap && !in_single && !first_done && !skip;
    assign is_last = !next_trap && !is_first;
    // Neither instructions nor a trap: nothing.
    assign empty = block && !in_retired && !trap;

    assign have = in_valid && !empty;
    assign next_valid = have && block;
    assign next_end = in_kind == te_pkg::IN_END;
    assign next_trap = !in_retired || last_done;        // neither the first nor the last instruction
    assign next_priv = in_priv;
    assign next_ctype = next_trap && in_retired ? te_pkg::CTYPE_UNREPORTED : in_ctype;
    assign next_context = in_context;
    // The first instruction of a block is not passed over there.
    assign next_target = in_iaddr;

    logic whole;
    assign whole = !block || next_trap || is_last && !trap;
    assign in_ready = empty || step && whole;

    // How far into the block the item is.
    logic [R-1:0] half_words;
    assign half_words = next_trap ? in_iretire : is_first || in_single ? '0 : in_iretire - last_size;

    always_ff @(posedge clk) begin
        held <= hold && !rst;
        if (!held) held_skip <= skip_now;
        if (rst) begin
            cur_valid <= 1'b0;
            first_done <= 1'b0;
            last_done <= 1'b0;
        end else if (step) begin
            cur_valid <= next_valid;
            first_done <= !whole && is_first;
            last_done <= !whole && is_last;
        end
        if (step) begin
            cur_address <= in_iaddr + A'({half_words, 1'b0});
            cur_end <= in_iaddr + A'({in_iretire, 1'b0});
            cur_trap <= next_trap;
            cur_interrupt <= in_itype == te_pkg::ITYPE_INTERRUPT;
            cur_itype <= is_last && !trap ? in_itype : te_pkg::ITYPE_NONE;
            cur_sijump <= in_sijump && is_last;
            cur_notify <= in_notify && is_last;
            cur_inner <= is_last && !in_single;
            cur_ctype <= next_ctype;
            cur_weight <= !is_last ? '0
                : te_pkg::RESYNC == te_pkg::RESYNC_CYCLES ? in_cycles
                : te_pkg::RESYNC == te_pkg::RESYNC_HALF_WORDS ? te_pkg::weight(in_iretire) : '0;
            cur_priv <= in_priv;
            cur_context <= in_context;
            cur_time <= in_time;
            cur_cause <= in_cause;
            cur_tval <= in_tval;
        end
    end

endmodule
