// Which packets a block needs, as the encoder of the thesis for CVA6 decides: by the flow chart of the older specification,
// about whole blocks.
//
// A block is known by its last instruction: that is what packets name, also after an uninferable jump. Packets of format 3
// leave the branch map alone. A resynchronisation first flushes the map with a packet that names an instruction, and then
// repeats its address. With te_pkg::FOLLOWABLE the encoder sends what it takes wherever that would leave a reader in doubt.
//
// Two cycles for a block: format 3, then formats 1 and 2. It waits for room; no packet is lost.

module te_priority_cva6 (
    input  logic clk,
    input  logic rst,
    input  logic                        room,
    // Blocks.
    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic [1:0]                  in_kind,
    input  logic [te_pkg::IADDR-1:0]    in_iaddr,
    input  logic [te_pkg::RETIRE-1:0]   in_iretire,
    input  logic                        in_ilastsize,
    input  logic [3:0]                  in_itype,
    input  logic [te_pkg::COUNT-1:0]    in_cycles,
    input  logic [te_pkg::PRIV-1:0]     in_priv,
    input  logic [te_pkg::ECAUSE-1:0]   in_cause,
    input  logic [te_pkg::IADDR-1:0]    in_tval,
    // Requests for packets (te_payload_cva6).
    output logic                        req_valid,
    output logic [2:0]                  req_kind,
    output logic [te_pkg::IADDR-1:0]    req_address,
    output logic [te_pkg::IADDR-1:0]    req_from,       // the address that was reported before
    output logic [30:0]                 req_map,
    output logic [4:0]                  req_count,
    output logic                        req_uncounted,  // the map is full-length, and how much of it counts is not said
    output logic                        req_updiscon,
    output logic                        req_branch,
    output logic [te_pkg::PRIV-1:0]     req_priv,
    output logic                        req_thaddr,
    output logic                        req_interrupt,
    output logic [te_pkg::ECAUSE-1:0]   req_cause,
    output logic [te_pkg::IADDR-1:0]    req_tval,
    output logic                        req_ienable,
    output logic [1:0]                  req_status,
    output logic                        lost
);

    localparam int A = te_pkg::IADDR;
    localparam int R = te_pkg::RETIRE;
    localparam int C = te_pkg::COUNT;
    localparam logic RTL = !te_pkg::FOLLOWABLE;

    // Cycles about a block: format 3, formats 1 and 2, a trap that nothing follows, the closing packet.
    localparam logic [1:0] SYNC = 2'd0;
    localparam logic [1:0] REPORT = 2'd1;
    localparam logic [1:0] TRAP = 2'd2;
    localparam logic [1:0] CLOSE = 2'd3;
    logic [1:0] phase;

    // Where resynchronisation stands: below the limit, the map must be flushed, the address is repeated, the next block is
    // named.
    localparam logic [1:0] COUNTING = 2'd0;
    localparam logic [1:0] FLUSH = 2'd1;
    localparam logic [1:0] REPEAT = 2'd2;
    localparam logic [1:0] SEND = 2'd3;
    logic [1:0]   stage, stage_now;
    logic [C-1:0] passed;
    logic [C:0]   sum;

    // The block under decision.
    logic         cur_valid, cur_retired, cur_trap, cur_interrupt, cur_single;
    logic [A-1:0] cur_last, cur_iaddr, cur_end, cur_tval;
    logic [3:0]   cur_itype;
    logic [C-1:0] cur_weight;
    logic [te_pkg::PRIV-1:0]   cur_priv;
    logic [te_pkg::ECAUSE-1:0] cur_cause;

    // What the block before leaves.
    logic         last_valid, last_updiscon, last_trap, last_interrupt, last_reported;
    logic [A-1:0] last_tval, last_epc;
    logic [te_pkg::PRIV-1:0]   last_priv;
    logic [te_pkg::ECAUSE-1:0] last_cause;

    logic [A-1:0] latest_address;
    logic enabled, sent_anyway, named, reported;
    logic asks;
    assign lost = 1'b0;
    assign asks = 1'b0;

    // The block after it.
    logic block, next_trap, next_retired, next_valid, next_end, single, empty;
    logic [R-1:0] last_size;
    assign block = in_valid && in_kind == te_pkg::IN_BLOCK;
    assign next_trap = in_itype == te_pkg::ITYPE_EXCEPTION || in_itype == te_pkg::ITYPE_INTERRUPT;
    assign next_retired = in_iretire != '0;
    assign empty = block && !next_retired && !next_trap;
    assign next_valid = block && !empty;
    assign next_end = in_kind == te_pkg::IN_END;
    assign last_size = in_ilastsize ? R'(2) : R'(1);
    assign single = in_iretire <= last_size;

    logic go, begin_now, sync_now, report_now, trap_now, close_now, end_alone, step;
    assign go = in_valid && !empty && room;
    assign begin_now = go && !cur_valid && next_valid;
    assign end_alone = go && !cur_valid && !next_valid;
    assign sync_now = go && cur_valid && phase == SYNC;
    assign report_now = go && cur_valid && phase == REPORT;
    assign trap_now = go && phase == TRAP;
    assign close_now = go && phase == CLOSE;
    assign step = begin_now || end_alone || report_now && next_valid || close_now;
    assign in_ready = empty || step;

    // Format 3.
    logic cur_branch, limit_reached, jumped, start, repeats, trap_before, second, named_now, to_flush;
    logic [30:0] map;
    logic [4:0]  count, earlier;
    logic        map_full;
    assign cur_branch = cur_itype == te_pkg::ITYPE_TAKEN || cur_itype == te_pkg::ITYPE_NOT_TAKEN;
    assign sum = (last_valid ? (C + 1)'(passed) : (C + 1)'(0)) + (C + 1)'(cur_weight);
    assign limit_reached = te_pkg::RESYNC != te_pkg::RESYNC_OFF && sum >= (C + 1)'(te_pkg::RESYNC_LIMIT);
    // A branch of this very block can wait: format 3 leaves it in the map.
    assign stage_now = (!last_valid || stage == COUNTING)
        ? (limit_reached ? (last_valid && earlier != 5'd0 ? FLUSH : SEND) : COUNTING) : stage;
    assign jumped = last_updiscon && !RTL;
    // A start packet would look like a repetition, or like an instruction before the jump.
    assign to_flush = stage_now == SEND && (jumped || !RTL && cur_last == latest_address);
    always_comb begin
        start = 1'b0;
        repeats = 1'b0;
        trap_before = 1'b0;
        second = 1'b0;
        named_now = 1'b0;
        if (!last_valid) begin
            start = cur_retired;
            named_now = cur_retired;
        end else if (last_trap) begin
            trap_before = !last_reported;
            second = !cur_retired;
            start = cur_retired && last_reported;
            named_now = start || trap_before && (second || RTL || cur_single);
        end else if (cur_retired) begin
            start = cur_priv != last_priv || stage_now == SEND && !to_flush;
            repeats = !start && stage_now == REPEAT && !jumped;
            named_now = start || repeats && RTL;
        end
    end

    // Formats 1 and 2.
    logic after, must_name, leaves, trap_after, address, without, flushing, full;
    assign after = !named && last_valid && last_updiscon;
    assign leaves = next_retired && in_priv != cur_priv;
    assign must_name = stage == FLUSH || cur_trap || !next_valid || !next_retired && next_trap
        || leaves && (count != 5'd0 || !RTL);
    assign trap_after = after && cur_trap && !cur_retired;
    assign address = !trap_after && (after || !named && cur_retired && must_name);
    assign flushing = stage == FLUSH;
    assign full = !trap_after && !address && map_full;
    // The last of 31 branches is the block's own: it needs no name unless a jump led to it, or the name will be repeated.
    assign without = address && map_full && (RTL || !after && !flushing);

    logic wanted;
    always_comb begin
        wanted = 1'b0;
        req_kind = te_pkg::PACKET_SUPPORT;
        req_status = te_pkg::STATUS_NO_CHANGE;
        req_ienable = 1'b0;
        if (begin_now) wanted = !enabled;
        else if (close_now) begin
            wanted = 1'b1;
            req_ienable = !next_end;
            req_status = sent_anyway ? te_pkg::STATUS_ENDED_NTR : te_pkg::STATUS_ENDED_REP;
        end else if (trap_now) begin
            wanted = 1'b1;
            req_kind = te_pkg::PACKET_TRAP;
        end else if (sync_now) begin
            wanted = start || repeats || trap_before;
            req_kind = trap_before ? te_pkg::PACKET_TRAP : te_pkg::PACKET_START;
        end else if (report_now) begin
            wanted = trap_after || address || full;
            req_kind = trap_after ? te_pkg::PACKET_TRAP : full || without ? te_pkg::PACKET_MAP : te_pkg::PACKET_ADDRESS;
        end
    end
    logic of_before;
    assign of_before = sync_now;
    assign req_valid = wanted;
    assign req_address = req_kind != te_pkg::PACKET_TRAP ? (sync_now && repeats ? latest_address : cur_last)
        : !of_before ? cur_end : second && RTL ? last_epc : cur_iaddr;
    assign req_from = latest_address;
    assign req_map = map;
    assign req_count = count;
    assign req_uncounted = RTL && !after && count[4];
    assign req_updiscon = after;
    assign req_branch = cur_itype != te_pkg::ITYPE_TAKEN || sync_now && repeats;
    assign req_priv = cur_priv;
    assign req_thaddr = of_before && !second;
    assign req_interrupt = of_before ? last_interrupt : cur_interrupt;
    assign req_cause = of_before ? last_cause : cur_cause;
    assign req_tval = of_before ? last_tval : cur_tval;

    // The map keeps what it has through format 3, but for outcomes that a trap leaves.
    logic forget, syncs;
    assign forget = sync_now && (!last_valid || last_trap && !RTL);
    te_branch_map_cva6 branches (
        .clk, .rst, .push(sync_now && cur_branch), .not_taken(cur_itype == te_pkg::ITYPE_NOT_TAKEN), .forget,
        .clear(report_now && (address || full) || te_pkg::SHALLOW && wanted), .earlier, .now(map), .count,
        .full(map_full)
    );
    assign syncs = sync_now && (start || repeats || trap_before) || report_now && trap_after || trap_now;

    always_ff @(posedge clk) begin
        if (step) begin
            cur_iaddr <= in_iaddr;
            cur_last <= in_iaddr + A'({in_iretire - (single ? in_iretire : last_size), 1'b0});
            cur_end <= in_iaddr + A'({in_iretire, 1'b0});
            cur_single <= single;
            cur_retired <= next_retired;
            cur_trap <= next_trap;
            cur_interrupt <= in_itype == te_pkg::ITYPE_INTERRUPT;
            cur_itype <= in_itype;
            cur_weight <= te_pkg::RESYNC == te_pkg::RESYNC_CYCLES ? in_cycles
                : te_pkg::RESYNC == te_pkg::RESYNC_HALF_WORDS ? te_pkg::weight(in_iretire) : '0;
            cur_priv <= in_priv;
            cur_cause <= in_cause;
            cur_tval <= in_tval;
        end
        if (sync_now) begin
            named <= named_now;
            reported <= 1'b0;
            sent_anyway <= 1'b0;
            if (start) latest_address <= cur_last;
            if (trap_before) latest_address <= req_address;
        end
        if (report_now) begin
            if (trap_after) begin
                reported <= 1'b1;
                latest_address <= cur_end;
            end
            if (address) begin
                sent_anyway <= after;
                if (!without || flushing) latest_address <= cur_last;
            end
            last_priv <= cur_priv;
            last_updiscon <= te_pkg::is_uninferable(cur_itype) && (cur_itype != te_pkg::ITYPE_TRAP_RETURN || !RTL);
            last_trap <= cur_trap;
            last_interrupt <= cur_interrupt;
            last_reported <= trap_after;
            last_cause <= cur_cause;
            last_tval <= cur_tval;
            last_epc <= cur_end;
        end
        if (trap_now) latest_address <= cur_end;
        if (rst) begin
            phase <= SYNC;
            cur_valid <= 1'b0;
            last_valid <= 1'b0;
            latest_address <= '0;
            enabled <= 1'b0;
            stage <= COUNTING;
            passed <= '0;
        end else begin
            if (step) phase <= SYNC;
            else if (sync_now) phase <= REPORT;
            else if (report_now) phase <= cur_trap && !trap_after && !RTL ? TRAP : CLOSE;
            else if (trap_now) phase <= CLOSE;
            if (step) cur_valid <= next_valid;
            if (report_now) last_valid <= 1'b1;
            else if (close_now) last_valid <= 1'b0;
            if (begin_now) enabled <= 1'b1;
            else if ((close_now || end_alone) && next_end) enabled <= 1'b0;

            if (syncs) begin
                passed <= '0;
                stage <= COUNTING;
            end else begin
                if (sync_now) begin
                    stage <= to_flush && !last_trap && last_valid && cur_retired ? FLUSH : stage_now;
                    passed <= sum >= (C + 1)'(te_pkg::RESYNC_LIMIT) ? te_pkg::RESYNC_LIMIT : sum[C-1:0];
                end
                if (report_now && address && flushing) stage <= REPEAT;
                if (!sync_now && wanted && te_pkg::RESYNC == te_pkg::RESYNC_PACKETS && passed < te_pkg::RESYNC_LIMIT)
                    passed <= passed + C'(1);
            end
        end
    end

endmodule
