// Lanes with holes to words without: bytes move together, and a word is sent when it is full.
//
// Before a gap, and at `flush`, what there is is sent as it is: then `out_keep` has ones from lane 0 on, and zeros after
// them. Otherwise all lanes hold a byte.
//
//   LANES   lanes of input and output, a power of two
//
// Latency: seven cycles after the byte that fills the word.

module lane_packer #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               gap,      // bytes are missing before lane 0
    input  logic               flush,    // there is no more: send what there is, and an empty word in every cycle
    input  logic [LANES-1:0]   keep,     // lanes that hold a byte; none at `flush`
    input  logic [8*LANES-1:0] data,
    output logic               step,     // a word is at the outputs
    output logic               out_gap,      // bytes are missing before it
    output logic               out_restart,  // the same, or it is the first
    output logic [LANES-1:0]   out_keep,
    output logic [8*LANES-1:0] out_data
);

    localparam int LEVELS = $clog2(LANES);

    // 1: the holes before each lane, first within groups of four lanes, then with those of the groups before.
    localparam int GROUPS = LANES / 4;
    logic                       gap_0, flush_0, gap_1, flush_1;
    logic [LANES-1:0]           keep_0, keep_1;
    logic [8*LANES-1:0]         data_0, data_1;
    logic [2*LANES-1:0]         before_0, before_s;  // bytes before a lane in its group
    logic [3*GROUPS-1:0]        group_0, group_s;    // bytes of a group
    logic [LEVELS*LANES-1:0]    holes_1, holes_s;
    logic [LEVELS:0]            count_1, count_s;
    logic [2:0]                 so_far;
    always_comb begin
        so_far = '0;
        for (int i = 0; i < LANES; i++) begin
            if (i % 4 == 0) so_far = '0;
            before_s[2*i+:2] = so_far[1:0];
            so_far = so_far + 3'(keep[i]);
            group_s[3*(i/4)+:3] = so_far;
        end
        count_s = '0;
        for (int i = 0; i < LANES; i++) begin
            holes_s[LEVELS*i+:LEVELS] = LEVELS'(i) - LEVELS'(count_s) - LEVELS'(before_0[2*i+:2]);
            if (i % 4 == 3) count_s = count_s + (LEVELS + 1)'(group_0[3*(i/4)+:3]);
        end
    end
    always_ff @(posedge clk) begin
        gap_0 <= gap && !rst;
        flush_0 <= flush && !rst;
        keep_0 <= rst ? '0 : keep;
        data_0 <= data;
        before_0 <= before_s;
        group_0 <= rst ? '0 : group_s;
        gap_1 <= gap_0 && !rst;
        flush_1 <= flush_0 && !rst;
        keep_1 <= rst ? '0 : keep_0;
        count_1 <= rst ? '0 : count_s;
        data_1 <= data_0;
        holes_1 <= holes_s;
    end

    // 2: every byte moves down by the holes before it, a bit of their number at a time, two bits a stage.
    localparam int CELL = LEVELS + 8 + 1;
    localparam int HALF = (LEVELS + 1) / 2;
    logic [CELL*LANES-1:0] cells, cells_q;
    logic [8*LANES-1:0]    packed_2;
    logic [LEVELS:0]       count_q, count_2;
    logic                  gap_q, flush_q, gap_2, flush_2;

    logic [CELL*LANES-1:0] cells_h, cells_s;
    logic [CELL-1:0]       here_h, above_h, here_s, above_s;
    always_comb begin
        cells_h = cells;
        here_h = '0;
        above_h = '0;
        for (int l = 0; l < HALF; l++) begin
            for (int i = 0; i < LANES; i++) begin
                here_h = cells_h[CELL*i+:CELL];
                above_h = '0;
                if (i + (1 << l) < LANES) above_h = cells_h[CELL*((i+(1<<l))%LANES)+:CELL];
                if (above_h[CELL-1] && above_h[8+l]) cells_h[CELL*i+:CELL] = above_h;
                else cells_h[CELL*i+CELL-1] = here_h[CELL-1] && !here_h[8+l];
            end
        end
    end
    always_comb begin
        cells_s = cells_q;
        here_s = '0;
        above_s = '0;
        for (int l = HALF; l < LEVELS; l++) begin
            for (int i = 0; i < LANES; i++) begin
                here_s = cells_s[CELL*i+:CELL];
                above_s = '0;
                if (i + (1 << l) < LANES) above_s = cells_s[CELL*((i+(1<<l))%LANES)+:CELL];
                if (above_s[CELL-1] && above_s[8+l]) cells_s[CELL*i+:CELL] = above_s;
                else cells_s[CELL*i+CELL-1] = here_s[CELL-1] && !here_s[8+l];
            end
        end
    end
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_cell
            assign cells[CELL*i+:CELL] = {keep_1[i], holes_1[LEVELS*i+:LEVELS], data_1[8*i+:8]};
            always_ff @(posedge clk) packed_2[8*i+:8] <= cells_s[CELL*i+:8];
        end
    endgenerate
    always_ff @(posedge clk) begin
        cells_q <= cells_h;
        count_q <= rst ? '0 : count_1;
        gap_q <= gap_1 && !rst;
        flush_q <= flush_1 && !rst;
        count_2 <= rst ? '0 : count_q;
        gap_2 <= gap_q && !rst;
        flush_2 <= flush_q && !rst;
    end

    // 3: how many bytes are held, and whether a word is full.
    logic [LEVELS:0]    held, held_s, sent_s, sent_3, used_3;
    logic [LEVELS+1:0]  total;
    logic [LEVELS-1:0]  turn_3;
    logic               send_s, send_3, waits_gap, waits_restart, gap_3, restart_3, apart;
    logic [8*LANES-1:0] data_3;
    assign apart = gap_2 || flush_2;   // what is held is sent without the new bytes
    always_comb begin
        total = {1'b0, held} + {1'b0, count_2};
        if (apart) begin
            send_s = held != '0 || waits_gap || flush_2;
            sent_s = held;
            held_s = count_2;
        end else begin
            send_s = total >= (LEVELS + 2)'(LANES);
            sent_s = (LEVELS + 1)'(LANES);
            held_s = send_s ? (LEVELS + 1)'(total - (LEVELS + 2)'(LANES)) : (LEVELS + 1)'(total);
        end
    end
    always_ff @(posedge clk) begin
        if (rst) begin
            held <= '0;
            waits_gap <= 1'b0;
            waits_restart <= 1'b1;
            send_3 <= 1'b0;
        end else begin
            held <= held_s;
            send_3 <= send_s;
            if (gap_2) waits_gap <= 1'b1;
            else if (send_s) waits_gap <= 1'b0;
            if (apart) waits_restart <= 1'b1;
            else if (send_s) waits_restart <= 1'b0;
        end
        gap_3 <= waits_gap;
        restart_3 <= waits_restart;
        used_3 <= held;
        sent_3 <= sent_s;
        turn_3 <= apart ? '0 : LEVELS'(held);
        data_3 <= packed_2;
    end

    // 4: new bytes go round to the lanes after those that are held.
    logic [8*LANES-1:0] turned, data_4;
    logic [LEVELS:0]    used_4, sent_4;
    logic               send_4, gap_4, restart_4;
    always_comb begin
        turned = data_3;
        for (int l = 0; l < LEVELS; l++)
            if (turn_3[l]) turned = (turned << (8 << l)) | (turned >> (8 * LANES - (8 << l)));
    end
    always_ff @(posedge clk) begin
        data_4 <= turned;
        used_4 <= used_3;
        sent_4 <= sent_3;
        send_4 <= send_3 && !rst;
        gap_4 <= gap_3;
        restart_4 <= restart_3;
    end

    // 5: together.
    logic [8*LANES-1:0] waiting, word;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_word
            assign word[8*i+:8] = used_4 > (LEVELS + 1)'(i) ? waiting[8*i+:8] : data_4[8*i+:8];
            always_ff @(posedge clk) out_keep[i] <= !rst && sent_4 > (LEVELS + 1)'(i);
        end
    endgenerate
    always_ff @(posedge clk) begin
        waiting <= send_4 ? data_4 : word;
        step <= send_4 && !rst;
        out_gap <= gap_4 && !rst;
        out_restart <= restart_4;
        out_data <= word;
    end

endmodule
