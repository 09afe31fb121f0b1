// Which packet the item under decision needs: the flow chart of the specification, with the additions that make every
// stream decodable.
//
// One step decides about one item. Most steps take one cycle and send at most one packet; a support packet before it, and
// what the end of tracing needs after it, take a cycle each. Where there is no room for a packet it is lost: nothing is
// sent until the packets before it have left half of their room, then a support packet says so and tracing begins again. A
// lossless encoder waits instead.

module te_priority (
    input  logic clk,
    input  logic rst,
    // Room for packets: one; half of all.
    input  logic                        room,
    input  logic                        half_empty,
    // Items (te_items).
    output logic                        every,
    output logic                        hold,
    output logic                        step,
    input  logic                        have,
    input  logic                        next_valid,
    input  logic                        next_end,
    input  logic                        next_trap,
    input  logic [te_pkg::PRIV-1:0]     next_priv,
    input  logic [1:0]                  next_ctype,
    input  logic [te_pkg::CONTEXT-1:0]  next_context,
    input  logic [te_pkg::IADDR-1:0]    next_target,
    input  logic                        cur_valid,
    input  logic [te_pkg::IADDR-1:0]    cur_address,
    input  logic [te_pkg::IADDR-1:0]    cur_end,
    input  logic                        cur_trap,
    input  logic                        cur_interrupt,
    input  logic [3:0]                  cur_itype,
    input  logic                        cur_sijump,
    input  logic                        cur_notify,
    input  logic                        cur_inner,
    input  logic [1:0]                  cur_ctype,
    input  logic [te_pkg::COUNT-1:0]    cur_weight,
    input  logic [te_pkg::PRIV-1:0]     cur_priv,
    input  logic [te_pkg::CONTEXT-1:0]  cur_context,
    input  logic [te_pkg::TIME-1:0]     cur_time,
    input  logic [te_pkg::ECAUSE-1:0]   cur_cause,
    input  logic [te_pkg::IADDR-1:0]    cur_tval,
    // Requests for packets (te_payload).
    output logic                        req_valid,
    output logic [2:0]                  req_kind,
    output logic [te_pkg::IADDR-1:0]    req_address,
    output logic [te_pkg::IADDR-1:0]    req_from,       // the address that was reported before
    output logic [30:0]                 req_map,
    output logic [4:0]                  req_count,
    output logic [31:0]                 req_counted,    // predicted branches
    output logic                        req_failed,     // and one that was not
    output logic                        req_cached,     // the address is in the jump target cache
    output logic                        req_irreport,   // implicit returns are reported
    output logic [te_pkg::IRETS-1:0]    req_irets,
    output logic                        req_notify,
    output logic                        req_updiscon,
    output logic                        req_branch,
    output logic [te_pkg::PRIV-1:0]     req_priv,
    output logic [te_pkg::CONTEXT-1:0]  req_context,
    output logic [te_pkg::TIME-1:0]     req_time,
    output logic                        req_thaddr,
    output logic                        req_interrupt,
    output logic [te_pkg::ECAUSE-1:0]   req_cause,
    output logic [te_pkg::IADDR-1:0]    req_tval,
    output logic                        req_ienable,
    output logic [1:0]                  req_status,
    input  logic                        weighed,        // an address of the cache was sent …
    input  logic                        as_index,       // … as its index
    output logic                        lost            // packets are being lost
);

    // Cycles of a step: the item itself (after a support packet: main), a trap that nothing follows, the closing packet.
    localparam logic [1:0] READY = 2'd0;
    localparam logic [1:0] MAIN = 2'd1;
    localparam logic [1:0] TRAP = 2'd2;
    localparam logic [1:0] CLOSE = 2'd3;
    logic [1:0] phase;

    // What the item before leaves.
    logic prev_valid, prev_retired, prev_updiscon, prev_trap, prev_interrupt, prev_reported;
    logic [te_pkg::PRIV-1:0]    prev_priv;
    logic [te_pkg::ECAUSE-1:0]  prev_cause;
    logic [te_pkg::IADDR-1:0]   prev_tval;
    // What was reported, and how.
    logic [te_pkg::CONTEXT-1:0] known_context;
    logic [te_pkg::IADDR-1:0]   last_address;
    logic enabled, context_pending, returned, waiting, sent_anyway;

    // Which cycle of the step this is.
    logic weighing, goes_on;
    logic go, asks, recover, enable_now, main, end_alone, trap_now, close_now, taken;
    assign go = have && (room || !te_pkg::LOSSLESS) && !weighing;
    assign asks = go && phase == READY && lost && (cur_valid || !next_valid && next_end && enabled);
    assign recover = asks && half_empty;
    assign enable_now = go && phase == READY && !cur_valid && next_valid;
    assign main = go && cur_valid && (phase == MAIN || phase == READY && !recover);
    assign end_alone = go && !cur_valid && !next_valid && (phase == MAIN || phase == READY && !recover);
    assign trap_now = go && phase == TRAP;
    assign close_now = go && phase == CLOSE;
    assign step = enable_now || main && goes_on || end_alone || close_now;
    assign hold = recover;

    // Steps 3 to 5 of the flow chart: packets that synchronise.
    logic cur_branch, uninferable, updiscon, imprecise, pending_now, changed, next_changed;
    logic flush_due, send_due, counting, near;
    logic start, trap_before, trap_alone, synchronised;
    assign cur_branch = cur_itype == te_pkg::ITYPE_TAKEN || cur_itype == te_pkg::ITYPE_NOT_TAKEN;
    assign imprecise = cur_ctype == te_pkg::CTYPE_IMPRECISE && cur_context != known_context;
    assign pending_now = context_pending || imprecise;
    assign changed = cur_priv != prev_priv || cur_ctype[1] && cur_context != known_context;
    assign next_changed = next_priv != cur_priv || next_ctype[1] && next_context != cur_context;
    always_comb begin
        start = 1'b0;
        trap_before = 1'b0;
        trap_alone = 1'b0;
        if (!prev_valid) begin
            trap_alone = cur_trap && !cur_interrupt;
            start = !cur_trap;
        end else if (prev_trap) begin
            trap_before = !prev_reported;
            start = prev_reported && !cur_trap;
        end else begin
            start = !cur_trap && (changed || send_due);
        end
    end
    assign synchronised = start || trap_before || trap_alone;

    // A jump whose target the instruction before it gives is inferable, if a decoder passes both.
    logic traced;
    assign traced = prev_valid && (cur_inner || prev_retired);
    assign uninferable = te_pkg::is_uninferable(cur_itype);
    assign updiscon = uninferable && !(te_pkg::SIJUMP && cur_sijump && traced
        && cur_itype != te_pkg::ITYPE_TRAP_RETURN && cur_itype != te_pkg::ITYPE_RETURN) && !implicit;

    // Returns that a return stack predicts. One that was predicted wrongly and leads to another context has no encoding: tracing
    // ends after it and begins again.
    logic implicit, wrong, after_implicit, after_last, restart, beginning, fresh, forget, syncs, names, moves;
    te_returns returns (
        .clk, .rst, .step(main), .forget, .moves, .itype(cur_itype), .updiscon, .after_call(cur_end), .next_valid,
        .next_target, .prev_valid, .implicit, .wrong, .after_implicit, .after_last, .report(req_irreport), .irets(req_irets)
    );
    assign restart = wrong && !next_trap && next_priv == cur_priv && next_changed;
    assign goes_on = next_valid && !restart;
    // Tables begin again at sync packets; those that survive them, where tracing begins.
    assign fresh = beginning || !te_pkg::KEEP_TABLES;
    assign forget = syncs && fresh;

    // Steps 6 to 10.
    logic after, like_after, sync_next, flush, before_sync, another, must_name, report, full_map, context_now, trap_after;
    logic [30:0] map;
    logic [4:0]  count;
    logic        map_full, counting_branches, failed, most_branches;
    logic [31:0] counted;
    assign after = prev_valid && prev_updiscon;
    // A predicted return that is reported for another reason is like one that was not predicted.
    assign like_after = after || after_implicit;
    assign trap_after = !synchronised && cur_trap && after && !cur_interrupt;
    assign sync_next = goes_on && (next_trap || next_changed);
    assign flush = flush_due && !updiscon;
    assign before_sync = sync_next || flush || !goes_on;
    assign must_name = sync_next && (next_trap || count != 5'd0 || counting_branches || waiting
        || next_priv == cur_priv && (updiscon || returned || cur_itype == te_pkg::ITYPE_RETURN));
    assign another = flush || !goes_on || must_name;
    assign report = !synchronised && !cur_trap && (after || another || cur_notify || most_branches);
    assign full_map = !synchronised && !cur_trap && !report && map_full;
    assign context_now = !synchronised && !cur_trap && !report && !map_full && pending_now;

    // A trap that nothing follows would be lost.
    logic reported;
    assign reported = trap_alone || trap_after;

    // The packet of this cycle.
    logic wanted;
    always_comb begin
        wanted = 1'b0;
        req_kind = te_pkg::PACKET_SUPPORT;
        req_ienable = !(close_now || end_alone) || !next_end;
        req_status = te_pkg::STATUS_NO_CHANGE;
        if (recover) begin
            wanted = 1'b1;
            req_ienable = 1'b1;
            req_status = te_pkg::STATUS_TRACE_LOST;
        end else if (enable_now) begin
            wanted = !enabled;
        end else if (end_alone) begin
            wanted = enabled && next_end;
        end else if (close_now) begin
            wanted = 1'b1;
            req_status = sent_anyway ? te_pkg::STATUS_ENDED_NTR : te_pkg::STATUS_ENDED_REP;
        end else if (trap_now) begin
            wanted = 1'b1;
            req_kind = te_pkg::PACKET_TRAP;
        end else if (main) begin
            wanted = synchronised || trap_after || report || full_map || context_now;
            if (start) req_kind = te_pkg::PACKET_START;
            else if (trap_before || trap_alone || trap_after) req_kind = te_pkg::PACKET_TRAP;
            else if (report) req_kind = counting_branches ? te_pkg::PACKET_COUNTED : te_pkg::PACKET_ADDRESS;
            else if (full_map) req_kind = failed ? te_pkg::PACKET_COUNT : te_pkg::PACKET_MAP;
            else req_kind = te_pkg::PACKET_CONTEXT;
        end
    end
    // After a loss the support packet is the first that is sent.
    assign taken = wanted && room && (!lost || recover);
    assign req_valid = taken;
    assign req_address = cur_address;
    assign req_from = last_address;
    assign req_map = map;
    assign req_count = count;
    assign req_counted = counted;
    assign req_failed = failed;
    assign req_notify = cur_notify && !like_after && !another;
    assign req_updiscon = like_after && before_sync;
    assign req_branch = cur_itype != te_pkg::ITYPE_TAKEN;
    assign req_priv = cur_priv;
    assign req_context = cur_context;
    assign req_time = cur_time;
    // A trap of the item before: its handler's first instruction retired, or trapped in its turn.
    logic of_before;
    assign of_before = !trap_now && trap_before;
    assign req_thaddr = of_before && !cur_trap;
    assign req_interrupt = of_before ? prev_interrupt : cur_interrupt;
    assign req_cause = of_before ? prev_cause : cur_cause;
    assign req_tval = of_before ? prev_tval : cur_tval;

    // Counters and branches.
    assign syncs = main && (synchronised || trap_after) || trap_now;
    assign names = main && report;
    assign moves = syncs || names || main && full_map;
    // A sync packet reports its own branch, and clears them all.
    te_branches branches (
        .clk, .rst, .push(cur_branch), .learn(main && cur_branch), .address(cur_address),
        .not_taken(cur_itype == te_pkg::ITYPE_NOT_TAKEN), .step(main), .clear(moves || te_pkg::SHALLOW && taken), .forget,
        .map, .count, .counting(counting_branches), .counted, .most(most_branches), .failed, .full(map_full)
    );
    te_resync resync (
        .clk, .rst, .step(main), .weight(cur_weight), .sent(taken), .named(main && report && flush), .clear(syncs),
        .counting, .near, .flush(flush_due), .send(send_due)
    );

    // Targets of uninferable jumps that a decoder knows. te_payload weighs index and address, and sends the shorter one; the
    // next step waits for that.
    generate
        if (te_pkg::JUMP_CACHE) begin : g_cache
            logic enters, hit;
            assign enters = after && !after_last;
            te_jump_cache jump_targets (
                .clk, .rst, .forget, .insert(main && enters && (report || start && !prev_trap && !fresh)),
                .target(cur_address), .hit
            );
            assign req_cached = main && report && !counting_branches && enters && hit;
        end else begin : g_no_cache
            assign req_cached = 1'b0;
        end
    endgenerate

    assign every = !prev_valid || prev_trap || !counting || near || context_pending;

    always_ff @(posedge clk) begin
        if (main) begin
            known_context <= cur_context;
            prev_priv <= cur_priv;
            prev_retired <= !cur_trap;
            prev_updiscon <= updiscon;
            prev_trap <= cur_trap;
            prev_interrupt <= cur_interrupt;
            prev_reported <= reported;
            prev_cause <= cur_cause;
            prev_tval <= cur_tval;
            sent_anyway <= report && like_after && !before_sync;
        end
        if (syncs || names) last_address <= cur_address;
        if (rst) begin
            phase <= READY;
            prev_valid <= 1'b0;
            known_context <= '0;
            beginning <= 1'b1;
            enabled <= 1'b0;
            context_pending <= 1'b0;
            returned <= 1'b0;
            waiting <= 1'b0;
            weighing <= 1'b0;
            lost <= 1'b0;
        end else begin
            if (recover) phase <= MAIN;
            else if (main && !goes_on) phase <= cur_trap && !reported ? TRAP : CLOSE;
            else if (trap_now) phase <= CLOSE;
            else if (step) phase <= READY;

            if (recover || close_now) prev_valid <= 1'b0;
            else if (main) prev_valid <= 1'b1;
            if (recover || close_now) beginning <= 1'b1;
            else if (main && (start || trap_before && !cur_trap)) beginning <= 1'b0;

            if (enable_now) enabled <= 1'b1;
            else if ((close_now || end_alone) && next_end) enabled <= 1'b0;

            if (recover) lost <= !taken;
            else if (wanted && !room) lost <= 1'b1;

            if (syncs) context_pending <= 1'b0;
            else if (main) context_pending <= pending_now && !context_now;
            if (main) returned <= returned && !moves || cur_itype == te_pkg::ITYPE_RETURN;
            else if (moves) returned <= 1'b0;
            if (weighed) waiting <= waiting && !as_index;
            else if (names) waiting <= like_after && !before_sync;
            else if (moves) waiting <= 1'b0;
            weighing <= taken && req_cached || weighing && !weighed;
        end
    end

endmodule
