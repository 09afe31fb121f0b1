// Testbench: reads what the core does, cycle by cycle, from the file +cycles=FILE, prints the words of the trace bus.
//
// A line of the file is, hexadecimal but for the first word,
//   C VALID OP ITYPE COMPRESSED SIJUMP PC FLAGS RESOLVED_PC CAUSE TVAL PRIV CONTEXT CTYPE TIME    one cycle of te_top
//   B IADDR IRETIRE ILASTSIZE ITYPE SIJUMP NOTIFY CTYPE CYCLES PRIV CONTEXT TIME CAUSE TVAL       a block for te_encoder
//   G                                                                                             a gap
//   E                                                                                             tracing ends
//   F TRACE ENABLES IADDR_LOWER IADDR_UPPER PRIV_LOWER PRIV_UPPER CAUSE_LOWER CAUSE_UPPER TVAL_LOWER TVAL_UPPER TVEC_LOWER
//     TVEC_UPPER                                                                                  programs the filter
//   R PATTERN                                                                                     when the bus is ready
// FLAGS: resolved valid (0), taken (1), kind (3:2), flush (4), trap (5), interrupt (6). ENABLES: iaddr, priv, cause, tval,
// tvec from bit 0 on. PATTERN: 32 bits, used in turn. With the macro BLOCKS te_encoder is tested, else te_top, which waits
// while it says stall (with the macro DEAF it does not). A line of the output is
//   W DATA BYTES       a word
//   P TAKEN            a packet was wanted: was there room?
//   H HALF_EMPTY       after a loss: is there room to begin again?
//   S LINES            a cycle in which the hart waits, after so many lines of kind C
//   L LINES            blocks of the last of so many lines of kind C, G and E were lost
//   D, or T            everything is out, or it never comes out

`timescale 1ns / 1ps

module tb_te;

    logic clk = 1'b0;
    logic rst = 1'b1;

    logic                       filter_trace = 1'b1;
    logic                       filter_iaddr_enable = 1'b0, filter_priv_enable = 1'b0, filter_cause_enable = 1'b0;
    logic                       filter_tval_enable = 1'b0, filter_tvec_enable = 1'b0;
    logic [te_pkg::IADDR-1:0]   filter_iaddr_lower = '0, filter_iaddr_upper = '0, filter_tval_lower = '0;
    logic [te_pkg::IADDR-1:0]   filter_tval_upper = '0, filter_tvec_lower = '0, filter_tvec_upper = '0;
    logic [te_pkg::PRIV-1:0]    filter_priv_lower = '0, filter_priv_upper = '0;
    logic [te_pkg::ECAUSE-1:0]  filter_cause_lower = '0, filter_cause_upper = '0;
    logic                       at_valid, lost, af_ready;
    logic                       at_ready = 1'b1;
    logic                       af_valid = 1'b0;
    logic [8*te_pkg::BUS-1:0]   at_data;
    logic [(te_pkg::BUS > 1 ? $clog2(te_pkg::BUS) : 1)-1:0] at_bytes;

`ifdef BLOCKS
    logic                       in_valid = 1'b0;
    logic                       in_ready;
    logic [1:0]                 in_kind = '0, in_ctype = '0;
    logic [te_pkg::IADDR-1:0]   in_iaddr = '0, in_tval = '0;
    logic [te_pkg::RETIRE-1:0]  in_iretire = '0;
    logic                       in_ilastsize = 1'b0, in_sijump = 1'b0, in_notify = 1'b0;
    logic [3:0]                 in_itype = '0;
    logic [te_pkg::COUNT-1:0]   in_cycles = '0;
    logic [te_pkg::PRIV-1:0]    in_priv = '0;
    logic [te_pkg::CONTEXT-1:0] in_context = '0;
    logic [te_pkg::TIME-1:0]    in_time = '0;
    logic [te_pkg::ECAUSE-1:0]  in_cause = '0;
    te_encoder dut (.*);
    `define ENCODER dut
`else
    logic                                   enable = 1'b0;
    logic                                   stall;
    logic [te_pkg::PORTS-1:0]               commit_valid = '0, commit_compressed = '0, commit_sijump = '0;
    logic [te_pkg::PORTS*te_pkg::IADDR-1:0] commit_pc = '0;
    logic [3*te_pkg::PORTS-1:0]             commit_op = '0;
    logic [4*te_pkg::PORTS-1:0]             commit_itype = '0;
    logic                                   resolved_valid = 1'b0, resolved_taken = 1'b0, flush = 1'b0;
    logic [te_pkg::IADDR-1:0]               resolved_pc = '0, trap_tval = '0;
    logic [1:0]                             resolved_kind = '0, ctype = '0;
    logic                                   trap_valid = 1'b0, trap_interrupt = 1'b0;
    logic [te_pkg::ECAUSE-1:0]              trap_cause = '0;
    logic [te_pkg::PRIV-1:0]                priv = '0;
    logic [te_pkg::CONTEXT-1:0]             context_id = '0;
    logic [te_pkg::TIME-1:0]                core_time = '0;
    te_top dut (.*);
    `define ENCODER dut.encoder
`endif

    always #5 clk = !clk;

    string        cycles;
    integer       file, read, idle, patience;
    logic [7:0]   what;
    logic [511:0] n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13;
    logic [31:0]  ready_pattern = '1;
    logic [4:0]   turn = '0;
    integer       lines = 0;
    integer       commit_line = 0, held_line = 0;

    // Inputs change at the falling edge; an input is taken at the rising edge after it.
    logic taken = 1'b0;
`ifdef BLOCKS
    always @(posedge clk) taken <= in_valid && in_ready;
`endif

    task automatic put(input logic [1:0] kind);
`ifdef BLOCKS
        in_valid = 1'b1;
        in_kind = kind;
        @(negedge clk);
        while (!taken) @(negedge clk);
        in_valid = 1'b0;
`else
        if (kind == te_pkg::IN_END) enable = 1'b0;
        lines = lines + 1;
        @(negedge clk);
`endif
    endtask

    initial begin
        idle = 0;
        if (!$value$plusargs("cycles=%s", cycles)) begin
            $display("usage: +cycles=FILE");
            $finish;
        end
        file = $fopen(cycles, "r");
        if (file == 0) begin
            $display("%s cannot be read", cycles);
            $finish;
        end
        repeat (4) @(negedge clk);
        rst = 1'b0;
        read = $fscanf(file, " %c", what);
        while (read == 1) begin
            case (what)
                "R": begin
                    read = $fscanf(file, "%h", n0);
                    ready_pattern = n0[31:0];
                end
                "F": begin
                    read = $fscanf(file, "%h %h %h %h %h %h %h %h %h %h %h %h", n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10,
                        n11);
                    filter_trace = n0[0];
                    {filter_tvec_enable, filter_tval_enable, filter_cause_enable, filter_priv_enable, filter_iaddr_enable}
                        = n1[4:0];
                    filter_iaddr_lower = n2[te_pkg::IADDR-1:0];
                    filter_iaddr_upper = n3[te_pkg::IADDR-1:0];
                    filter_priv_lower = n4[te_pkg::PRIV-1:0];
                    filter_priv_upper = n5[te_pkg::PRIV-1:0];
                    filter_cause_lower = n6[te_pkg::ECAUSE-1:0];
                    filter_cause_upper = n7[te_pkg::ECAUSE-1:0];
                    filter_tval_lower = n8[te_pkg::IADDR-1:0];
                    filter_tval_upper = n9[te_pkg::IADDR-1:0];
                    filter_tvec_lower = n10[te_pkg::IADDR-1:0];
                    filter_tvec_upper = n11[te_pkg::IADDR-1:0];
                end
`ifdef BLOCKS
                "B": begin
                    read = $fscanf(file, "%h %h %h %h %h %h %h %h %h %h %h %h %h", n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10,
                        n11, n12);
                    in_iaddr = n0[te_pkg::IADDR-1:0];
                    in_iretire = n1[te_pkg::RETIRE-1:0];
                    in_ilastsize = n2[0];
                    in_itype = n3[3:0];
                    in_sijump = n4[0];
                    in_notify = n5[0];
                    in_ctype = n6[1:0];
                    in_cycles = n7[te_pkg::COUNT-1:0];
                    in_priv = n8[te_pkg::PRIV-1:0];
                    in_context = n9[te_pkg::CONTEXT-1:0];
                    in_time = n10[te_pkg::TIME-1:0];
                    in_cause = n11[te_pkg::ECAUSE-1:0];
                    in_tval = n12[te_pkg::IADDR-1:0];
                    put(te_pkg::IN_BLOCK);
                end
`else
                "C": begin
                    read = $fscanf(file, "%h %h %h %h %h %h %h %h %h %h %h %h %h %h", n0, n1, n2, n3, n4, n5, n6, n7, n8, n9,
                        n10, n11, n12, n13);
`ifndef DEAF
                    // A hart that waits commits nothing.
                    while (stall) begin
                        $display("S %0d", lines);
                        @(negedge clk);
                    end
`endif
                    enable = 1'b1;
                    lines = lines + 1;
                    commit_valid = n0[te_pkg::PORTS-1:0];
                    commit_op = n1[3*te_pkg::PORTS-1:0];
                    commit_itype = n2[4*te_pkg::PORTS-1:0];
                    commit_compressed = n3[te_pkg::PORTS-1:0];
                    commit_sijump = n4[te_pkg::PORTS-1:0];
                    commit_pc = n5[te_pkg::PORTS*te_pkg::IADDR-1:0];
                    {trap_interrupt, trap_valid, flush, resolved_kind, resolved_taken, resolved_valid} = n6[6:0];
                    resolved_pc = n7[te_pkg::IADDR-1:0];
                    trap_cause = n8[te_pkg::ECAUSE-1:0];
                    trap_tval = n9[te_pkg::IADDR-1:0];
                    priv = n10[te_pkg::PRIV-1:0];
                    context_id = n11[te_pkg::CONTEXT-1:0];
                    ctype = n12[1:0];
                    core_time = n13[te_pkg::TIME-1:0];
                    @(negedge clk);
                    {commit_valid, resolved_valid, flush, trap_valid} = '0;
                end
`endif
                "G": put(te_pkg::IN_GAP);
                default: put(te_pkg::IN_END);
            endcase
            read = $fscanf(file, " %c", what);
        end
        // Until everything is out: a flush is answered.
        ready_pattern = '1;
        repeat (3000) @(negedge clk);
        af_valid = 1'b1;
        patience = 0;
        while (!af_ready && patience < 100000) begin
            @(negedge clk);
            patience = patience + 1;
        end
        if (af_ready) $display("D");
        else $display("T");
        $fclose(file);
        $finish;
    end

    always @(negedge clk) begin
        at_ready <= ready_pattern[turn];
        turn <= turn + 5'd1;
    end

    always @(posedge clk) begin
        if (!rst && at_valid && at_ready) $display("W %h %0d", at_data, at_bytes);
        if (!rst && `ENCODER.decide.asks) $display("H %0d", `ENCODER.half_empty);
        if (!rst && `ENCODER.decide.wanted && (!lost || `ENCODER.decide.asks && `ENCODER.half_empty))
            $display("P %0d", `ENCODER.room);
`ifndef BLOCKS
        // What is lost came two cycles before.
        if (!rst && dut.queue.full && |dut.queue.held_valid) $display("L %0d", held_line);
        commit_line <= lines;
        held_line <= commit_line;
`endif
    end

endmodule
