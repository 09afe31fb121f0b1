// The cycle count threshold of ETMv4/ETE: section CYCT of the last Trace Info.
//
// A mark goes from PLCTL over the sections before CYCT, one a stage, to its first byte; its bytes are then written into
// the register. A Trace Info without CYCT says that the threshold is 0.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: LANES / 4 + 7 cycles.

module etm4_threshold_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                step,        // a word is at the inputs
    input  logic                restart,
    input  logic [LANES-1:0]    trace_info,  // the header of a Trace Info that is not bad
    input  logic [8*LANES-1:0]  control,     // the byte after each lane
    input  logic [8*LANES-1:0]  bytes,
    output logic [32*LANES-1:0] threshold    // after the byte of each lane
);

    localparam int STEPS = 4;
    localparam int BACK = 5;      // bytes of a field, at most

    // marks[s]: bits 4k+3:4k of lane k's mark, fields that are still before CYCT: 1, 2, 3, 4. `at` has those that arrived.
    logic [4*LANES-1:0] marks  [0:STEPS];
    logic [LANES-1:0]   at     [0:STEPS];
    logic [8*LANES-1:0] stream [0:STEPS];
    logic [LANES-1:0]   infos  [0:STEPS];
    logic               restarts [0:STEPS];

    // PLCTL is in the lane after the header: the next word's first lane for the last one.
    logic last_has;
    logic [3:0] last_mark;
    function automatic [3:0] mark_of(input [7:0] plctl);
        mark_of = 4'b0;
        if (plctl[3]) mark_of = 4'b1 << (2'(plctl[0]) + 2'(plctl[1]) + 2'(plctl[2]));
    endfunction
    logic [4*LANES-1:0] begins, marks_0;
    logic [8*LANES-1:0] stream_0;
    logic [LANES-1:0]   infos_0;
    logic               restart_0;
    assign marks[0] = marks_0;
    assign stream[0] = stream_0;
    assign infos[0] = infos_0;
    assign restarts[0] = restart_0;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_mark
            if (i == 0) begin : g_first
                assign begins[3:0] = last_has ? last_mark : 4'b0;
            end else begin : g_after
                assign begins[4*i+:4] = trace_info[i-1] ? mark_of(control[8*(i-1)+:8]) : 4'b0;
            end
        end
    endgenerate
    always_ff @(posedge clk) begin
        if (rst) last_has <= 1'b0;
        else if (step) last_has <= trace_info[LANES-1];
        if (step) last_mark <= mark_of(control[8*(LANES-1)+:8]);
    end
    logic               step_0;
    logic [STEPS+1:0]   now;
    always_ff @(posedge clk) begin
        step_0 <= step && !rst;
        marks_0 <= begins;
        stream_0 <= bytes;
        infos_0 <= trace_info;
        restart_0 <= restart;
    end
    steps #(.CYCLES(STEPS + 1)) stages (.clk, .rst, .step(step_0), .at(now));
    assign at[0] = '0;

    generate
        for (genvar s = 0; s < STEPS; s++) begin : g_step
            // The last bytes of the word before, and their marks.
            logic [4*(LANES+BACK)-1:0] m;
            logic [LANES+BACK-1:0]     more;
            logic [4*BACK-1:0]         m_before;
            logic [BACK-1:0]           more_before;
            logic [4*LANES-1:0]        moved;
            logic [LANES-1:0]          arrived, at_q, infos_q;
            logic [4*LANES-1:0]        marks_q;
            logic [8*LANES-1:0]        stream_q;
            logic                      restart_q;
            assign marks[s+1] = marks_q;
            assign at[s+1] = at_q;
            assign stream[s+1] = stream_q;
            assign infos[s+1] = infos_q;
            assign restarts[s+1] = restart_q;
            assign m = {marks[s], m_before};
            for (genvar i = 0; i < LANES; i++) begin : g_lane
                assign more[BACK+i] = stream[s][8*i+7];
                logic [3:0]        here;
                logic              run;
                logic [BACK-1:0]   before_it;
                logic [4*BACK-1:0] marks_before;
                assign before_it = more[i+:BACK];
                assign marks_before = m[4*i+:4*BACK];
                // A field that began d lanes before ends just before this lane.
                always_comb begin
                    here = marks_before[4*(BACK-1)+:4];
                    run = 1'b1;
                    for (int d = 2; d <= BACK; d++) begin
                        run = run && before_it[BACK-d];
                        if (run) here = here | marks_before[4*(BACK-d)+:4];
                    end
                    if (before_it[BACK-1]) here = 4'b0;
                end
                assign moved[4*i+:4] = {1'b0, here[3:1]};
                assign arrived[i] = here[0];
            end
            assign more[BACK-1:0] = more_before;
            always_ff @(posedge clk) begin
                if (rst) m_before <= '0;
                else if (now[s]) m_before <= marks[s][4*LANES-1-:4*BACK];
                if (now[s]) for (int k = 0; k < BACK; k++) more_before[k] <= stream[s][8*(LANES-BACK+k)+7];
                marks_q <= moved;
                at_q <= at[s] | arrived;
                stream_q <= stream[s];
                infos_q <= infos[s];
                restart_q <= restarts[s];
            end
        end
    endgenerate

    // Bytes of CYCT: byte k is k lanes after the first, and all before it have bit 7 set.
    logic [LANES+3:0]    begun, more_4;
    logic [3:0]          begun_before, more_before_4;
    logic [5*LANES-1:0]  write, write_1;
    logic [35*LANES-1:0] value, result;
    logic [8*LANES-1:0]  stream_5;
    logic [LANES-1:0]    infos_5;
    logic                restart_5;
    assign begun = {at[STEPS], begun_before};
    assign more_4[3:0] = more_before_4;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_write
            assign more_4[4+i] = stream[STEPS][8*i+7];
            for (genvar k = 0; k < 5; k++) begin : g_byte
                if (k == 0) begin : g_begin
                    assign write[5*i] = begun[4+i];
                end else begin : g_more
                    assign write[5*i+k] = begun[4+i-k] && &more_4[4+i-k+:k];
                end
                assign value[35*i+7*k+:7] = stream_5[8*i+:7];
            end
            assign threshold[32*i+:32] = result[35*i+:32];
        end
    endgenerate
    always_ff @(posedge clk) begin
        if (rst) begun_before <= '0;
        else if (now[STEPS]) begun_before <= at[STEPS][LANES-1-:4];
        if (now[STEPS]) for (int k = 0; k < 4; k++) more_before_4[k] <= stream[STEPS][8*(LANES-4+k)+7];
        write_1 <= write;
        stream_5 <= stream[STEPS];
        infos_5 <= infos[STEPS];
        restart_5 <= restarts[STEPS];
    end

    register_walk #(.LANES(LANES), .PARTS(5), .BITS(7)) walk (
        .clk, .rst, .step(now[STEPS+1]), .restart(restart_5), .clear(infos_5), .write(write_1), .data(value), .out(result)
    );

endmodule
