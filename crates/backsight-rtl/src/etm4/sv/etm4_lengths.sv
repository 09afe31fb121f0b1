// How long the payload of each byte of an ETMv4/ETE stream would be if the byte were a header.
//
// Nothing here depends on where packets really begin: every lane looks at the bytes after it. A part of a payload ends with
// the first byte whose bit 7 is 0, or after a fixed number of bytes, so that its length is a short run of bits; a
// second part is looked up where the first one ends. A Trace Info is a chain of up to six continued fields, whose
// lengths etm4_sections adds.
//
//   LANES   bytes of a word, 8 or 16
//
// Lengths of a word come out when the words are there in which its packets can reach.

module etm4_lengths #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               step,    // a word is at `data`
    input  logic [8*LANES-1:0] data,
    output logic               next,    // the outputs are those of a word in the next cycle
    output logic [5*LANES-1:0] length,  // bytes of the payload, 0 to 30
    output logic [4*LANES-1:0] first,   // bytes of its first part
    output logic [3*LANES-1:0] why      // the packet would be bad: etm4_pkg::WHY_*
);

    localparam int AHEAD = (10 + LANES - 1) / LANES;  // words in which the ten bytes after a lane are
    localparam int WORDS = AHEAD + 1;
    localparam int ENTRY = etm4_pkg::ENTRY;

    // What each byte is alone: as a header, whether it is 0 or 0x80.
    logic                     step_0;
    logic [8*LANES-1:0]       data_0;
    logic [ENTRY*LANES-1:0]   entry_s, entry_0;
    logic [LANES-1:0]         zero_0, last_0;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_byte
            etm4_header header_of (.data(data[8*i+:8]), .entry(entry_s[ENTRY*i+:ENTRY]));
            always_ff @(posedge clk) begin
                zero_0[i] <= data[8*i+:8] == 8'h00;
                last_0[i] <= data[8*i+:8] == 8'h80;
            end
        end
    endgenerate
    always_ff @(posedge clk) begin
        step_0 <= step && !rst;
        data_0 <= data;
        entry_0 <= entry_s;
    end

    // The bytes after each lane: bit 7 of them, and whether they are 0 or 0x80.
    logic [3*LANES*WORDS-1:0] flags;
    logic [3*LANES-1:0]       flags_0;
    logic [8*LANES-1:0]       bytes;
    logic [ENTRY*LANES-1:0]   entry_at;
    logic                     flags_filled, step_1;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_flags
            assign flags_0[3*i+:3] = {last_0[i], zero_0[i], data_0[8*i+7]};
        end
    endgenerate
    word_window #(.WIDTH(3 * LANES), .WORDS(WORDS)) window_of_flags (
        .clk, .rst, .step(step_0), .in(flags_0), .filled(flags_filled), .window(flags)
    );
    word_delay #(.WIDTH((8 + ENTRY) * LANES), .WORDS(AHEAD)) bytes_at (
        .clk, .step(step_0), .in({data_0, entry_0}), .out({bytes, entry_at})
    );
    always_ff @(posedge clk) step_1 <= flags_filled && !rst;

    // What parts are there if they begin at a lane: runs of bit 7, of zero bytes, and what the first byte says.
    localparam int PART = 2 + 3 + 4 + 4 + 4 + 4 + 3 + 1 + 3 + 3;
    localparam int P_COUNT = 0;         // continued, at most three bytes
    localparam int P_NUMBER = 2;        // at most five
    localparam int P_RESULT = 5;        // at most six
    localparam int P_STAMP = 9;         // at most nine
    localparam int P_EXTENSION = 13;    // up to a byte that is not 0, at most eleven
    localparam int P_INFO = 17;         // information byte and identifiers
    localparam int P_LONG = 21;         // continued for more than three, five, six bytes
    localparam int P_EXCEPTION = 24;    // an exception with a second byte
    localparam int P_EXTENSION_WHY = 25;
    localparam int P_SECTIONS = 28;     // of a Trace Info whose PLCTL this is

    function automatic [PART-4:0] part_of(input [7:0] b, input [8:0] more, input [10:0] zero, input last_is_80,
                                          input two);
        logic [3:0] run, zeros, info;
        logic [2:0] ext_why;
        run = 4'd9;
        for (int k = 7; k >= 0; k--) if (!more[k]) run = 4'(k + 1);
        zeros = 4'd11;
        for (int k = 9; k >= 0; k--) if (!zero[k]) zeros = 4'(k + 1);
        info = 4'd1 + (b[6] ? 4'(etm4_pkg::VMID_BYTES) : 4'd0) + (b[7] ? 4'(etm4_pkg::CID_BYTES) : 4'd0);
        if (zeros == 4'd1)
            ext_why = b == 8'h03 || b == 8'h05 ? etm4_pkg::WHY_NONE : etm4_pkg::WHY_EXTENSION;
        else ext_why = zeros == 4'd11 && last_is_80 ? etm4_pkg::WHY_NONE : etm4_pkg::WHY_ASYNC_LENGTH;
        part_of = {ext_why, two, &more[5:0], &more[4:0], &more[2:0], info, zeros, run,
                   &more[4:0] ? 4'd6 : run, more[3:0] == 4'hF ? 3'd5 : run[2:0], more[1:0] == 2'h3 ? 2'd3 : run[1:0]};
    endfunction

    logic [PART*LANES-1:0]  part;
    logic [ENTRY*LANES-1:0] entry;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_part
            logic [ENTRY-1:0] e;
            logic [8:0]  more;
            logic [10:0] zero;
            assign e = entry_at[ENTRY*i+:ENTRY];
            for (genvar k = 0; k < 9; k++) begin : g_more
                assign more[k] = flags[3*(i+k)];
            end
            for (genvar k = 0; k < 11; k++) begin : g_zero
                assign zero[k] = flags[3*(i+k)+1];
            end
            always_ff @(posedge clk) begin
                part[PART*i+:PART] <= {e[etm4_pkg::E_SECTIONS+:3],
                    part_of(bytes[8*i+:8], more, zero, flags[3*(i+10)+2], e[etm4_pkg::E_TWO])};
                entry[ENTRY*i+:ENTRY] <= e;
            end
        end
    endgenerate

    // The first part: it begins one lane after the header.
    logic [PART*LANES*WORDS-1:0] parts, parts_2;
    logic [ENTRY*LANES-1:0]      entry_1;
    logic                        parts_filled;
    logic [3:0]                  at;
    word_window #(.WIDTH(PART * LANES), .WORDS(WORDS)) window_of_parts (
        .clk, .rst, .step(step_1), .in(part), .filled(parts_filled), .window(parts)
    );
    word_delay #(.WIDTH(ENTRY * LANES), .WORDS(AHEAD)) entries (.clk, .step(step_1), .in(entry), .out(entry_1));
    steps #(.CYCLES(3)) stages (.clk, .rst, .step(parts_filled), .at);

    function automatic [3:0] fixed_length(input [11:0] left);
        fixed_length = 4'd0;
        for (int k = 0; k < 12; k++) if (left[k]) fixed_length = fixed_length | 4'(k + 1);
    endfunction

    logic [4*LANES-1:0] first_2;
    logic [3*LANES-1:0] why_2;
    logic [LANES-1:0]   control_2, then_info, then_count, then_result, then_number;
    always_ff @(posedge clk) parts_2 <= parts;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_first
            logic [ENTRY-1:0] e;
            logic [PART-1:0]  p;
            logic [11:0]      left;
            logic [3:0]       n;
            logic             long_one;
            assign e = entry_1[ENTRY*i+:ENTRY];
            assign p = parts[PART*(i+1)+:PART];
            assign left = e[etm4_pkg::E_LEFT+:12];
            always_comb begin
                long_one = 1'b0;
                if (e[etm4_pkg::E_INFO]) n = p[P_INFO+:4];
                else if (e[etm4_pkg::E_EXCEPTION]) n = p[P_EXCEPTION] ? 4'd2 : 4'd1;
                else if (e[etm4_pkg::E_EXTENSION]) n = p[P_EXTENSION+:4];
                else if (e[etm4_pkg::E_STOP]) begin
                    if (left[1]) n = p[P_COUNT+:2] == 2'd1 ? 4'd1 : 4'd2;
                    else if (left[2]) n = {2'b0, p[P_COUNT+:2]};
                    else if (left[4]) n = {1'b0, p[P_NUMBER+:3]};
                    else if (left[5]) n = p[P_RESULT+:4];
                    else n = p[P_STAMP+:4];
                    long_one = (left[2] && p[P_LONG]) || (left[4] && p[P_LONG+1]) || (left[5] && p[P_LONG+2]);
                end else n = fixed_length(left);
            end
            always_ff @(posedge clk) begin
                first_2[4*i+:4] <= e[etm4_pkg::E_PAYLOAD] ? n : 4'd0;
                if (!e[etm4_pkg::E_PAYLOAD]) why_2[3*i+:3] <= e[etm4_pkg::E_WHY+:3];
                else if (long_one) why_2[3*i+:3] <= etm4_pkg::WHY_FIELD_TOO_LONG;
                else why_2[3*i+:3] <= e[etm4_pkg::E_EXTENSION] ? p[P_EXTENSION_WHY+:3] : etm4_pkg::WHY_NONE;
                control_2[i] <= e[etm4_pkg::E_CONTROL];
                then_info[i] <= e[etm4_pkg::E_THEN_INFO] && !long_one;
                then_count[i] <= e[etm4_pkg::E_THEN_COUNT] && !long_one;
                then_result[i] <= e[etm4_pkg::E_THEN_RESULT] && !long_one;
                then_number[i] <= e[etm4_pkg::E_THEN_NUMBER] && !long_one;
            end
        end
    endgenerate

    // The second part: it begins where the first one ends.
    logic [4*LANES-1:0] first_3, second_3, first_4;
    logic [3*LANES-1:0] why_3, why_4;
    logic [LANES-1:0]   control_3, control_4;
    logic [5*LANES-1:0] length_4;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_second
            logic [3:0] n, begins;
            logic       too_long;
            logic [10*PART-1:0] p;  // at the byte after the header and those after it
            assign p = parts_2[PART*(i+1)+:10*PART];
            assign begins = first_2[4*i+:4];
            // A count may follow after one to nine bytes, a result after one to six, a number after one, two or four, a context
            // after four or eight.
            logic [47:0] counts;
            logic [39:0] results;
            logic [2:0]  at_count;
            logic [4:0]  at_result;
            logic [3:0]  at_number;
            for (genvar k = 0; k < 16; k++) begin : g_count
                if (k >= 1 && k < 10) begin : g_there
                    assign counts[3*k+:3] = {p[PART*k+P_LONG], p[PART*k+P_COUNT+:2]};
                end else begin : g_none
                    assign counts[3*k+:3] = 3'b0;
                end
            end
            for (genvar k = 0; k < 8; k++) begin : g_result
                if (k >= 1 && k < 7) begin : g_there
                    assign results[5*k+:5] = {p[PART*k+P_LONG+2], p[PART*k+P_RESULT+:4]};
                end else begin : g_none
                    assign results[5*k+:5] = 5'b0;
                end
            end
            assign at_count = counts[3*begins+:3];
            assign at_result = results[5*begins[2:0]+:5];
            assign at_number = begins[2] ? {p[PART*4+P_LONG+1], p[PART*4+P_NUMBER+:3]}
                : begins[1] ? {p[PART*2+P_LONG+1], p[PART*2+P_NUMBER+:3]} : {p[PART+P_LONG+1], p[PART+P_NUMBER+:3]};
            assign n = ({2'b0, at_count[1:0]} & {4{then_count[i]}}) | (at_result[3:0] & {4{then_result[i]}})
                | ({1'b0, at_number[2:0]} & {4{then_number[i]}})
                | ((begins[3] ? p[PART*8+P_INFO+:4] : p[PART*4+P_INFO+:4]) & {4{then_info[i]}});
            assign too_long = (then_count[i] && at_count[2]) || (then_result[i] && at_result[4])
                || (then_number[i] && at_number[3]);
            always_ff @(posedge clk) begin
                second_3[4*i+:4] <= n;
                why_3[3*i+:3] <= too_long ? etm4_pkg::WHY_FIELD_TOO_LONG : why_2[3*i+:3];
                length_4[5*i+:5] <= {1'b0, first_3[4*i+:4]} + {1'b0, second_3[4*i+:4]};
            end
        end
    endgenerate
    always_ff @(posedge clk) begin
        first_3 <= first_2;
        first_4 <= first_3;
        why_4 <= why_3;
        control_3 <= control_2;
        control_4 <= control_3;
    end

    // Trace Info: PLCTL, which is one lane after the header, and as many fields as it has bits set.
    logic [3*LANES-1:0] number, sections;
    logic [LANES-1:0]   number_long, control_5;
    logic [6*LANES-1:0] info;
    logic [5*LANES-1:0] length_5;
    logic [4*LANES-1:0] first_5;
    logic [3*LANES-1:0] why_5;
    logic               info_next;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_number
            assign number[3*i+:3] = parts_2[PART*(i+1)+P_NUMBER+:3];
            assign number_long[i] = parts_2[PART*(i+1)+P_LONG+1];
            assign sections[3*i+:3] = parts_2[PART*(i+1)+P_SECTIONS+:3];
        end
    endgenerate
    etm4_sections #(.LANES(LANES)) trace_info (
        .clk, .rst, .step(at[1]), .number, .number_long, .sections, .next(info_next), .length(info)
    );
    word_queue #(.WIDTH(6 * LANES), .DEPTH(16)) lengths_until_info (
        .clk, .rst, .put(at[3]), .in({control_4, length_4}), .take(info_next), .out({control_5, length_5})
    );
    word_queue #(.WIDTH(4 * LANES), .DEPTH(16)) firsts_until_info (
        .clk, .rst, .put(at[3]), .in(first_4), .take(info_next), .out(first_5)
    );
    word_queue #(.WIDTH(3 * LANES), .DEPTH(16)) reasons_until_info (
        .clk, .rst, .put(at[3]), .in(why_4), .take(info_next), .out(why_5)
    );

    always_ff @(posedge clk) begin
        next <= info_next && !rst;
        first <= first_5;
    end
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_length
            always_ff @(posedge clk) begin
                length[5*i+:5] <= control_5[i] ? info[6*i+:5] : length_5[5*i+:5];
                if (!control_5[i]) why[3*i+:3] <= why_5[3*i+:3];
                else why[3*i+:3] <= info[6*i+5] ? etm4_pkg::WHY_FIELD_TOO_LONG : etm4_pkg::WHY_NONE;
            end
        end
    endgenerate

endmodule
