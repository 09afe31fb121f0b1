// How long the payload of each byte of an ETMv4/ETE stream would be if the byte were a header.
//
// Nothing here depends on where packets really begin: every lane looks at the bytes after it. A part of a payload ends with
// the first byte whose bit 7 is 0, or after a fixed number of bytes, so that its length is a short run of bits; a
// second part is looked up where the first one ends. A Trace Info is a chain of up to six continued fields, whose
// lengths etm4_sections adds.
//
//   LANES   bytes of a word, 8 or 16
//
// Latency: etm4_prefix_pkg::LENGTHS words.

module etm4_lengths #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               advance,
    input  logic [8*LANES-1:0] data,
    output logic [5*LANES-1:0] length,  // bytes of the payload, 0 to 30
    output logic [4*LANES-1:0] first,   // bytes of its first part
    output logic [3*LANES-1:0] why      // the packet would be bad: etm4_pkg::WHY_*
);

    localparam int AHEAD = (10 + LANES - 1) / LANES;  // words in which the ten bytes after a lane are
    localparam int NEAR = AHEAD + 1;
    localparam int FAR = AHEAD + 2;
    localparam int ENTRY = etm4_pkg::ENTRY;

    // The bytes after each lane.
    logic [8*LANES*NEAR-1:0] bytes;
    word_window #(.WIDTH(8 * LANES), .WORDS(NEAR)) window_of_bytes (.clk, .advance, .in(data), .window(bytes));

    // What parts are there if they begin at a lane: runs of bit 7, of zero bytes, and what the first byte says.
    localparam int PART = 2 + 3 + 4 + 4 + 4 + 4 + 3 + 2 + 3;
    localparam int P_COUNT = 0;         // continued, at most three bytes
    localparam int P_NUMBER = 2;        // at most five
    localparam int P_RESULT = 5;        // at most six
    localparam int P_STAMP = 9;         // at most nine
    localparam int P_EXTENSION = 13;    // up to a byte that is not 0, at most eleven
    localparam int P_INFO = 17;         // information byte and identifiers
    localparam int P_LONG = 21;         // continued for more than three, five, six bytes
    localparam int P_EXCEPTION = 24;
    localparam int P_EXTENSION_WHY = 26;

    function automatic [PART-1:0] part_of(input [7:0] b, input [8:0] more, input [10:0] zero, input last_is_80,
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
        part_of = {ext_why, 1'b0, two, &more[5:0], &more[4:0], &more[2:0], info, zeros, run,
                   &more[4:0] ? 4'd6 : run, more[3:0] == 4'hF ? 3'd5 : run[2:0], more[1:0] == 2'h3 ? 2'd3 : run[1:0]};
    endfunction

    logic [PART*LANES-1:0]  part;
    logic [ENTRY*LANES-1:0] entry;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_part
            logic [ENTRY-1:0] e;
            logic [8:0]  more;
            logic [10:0] zero;
            etm4_header header_of (.data(bytes[8*i+:8]), .entry(e));
            for (genvar k = 0; k < 9; k++) begin : g_more
                assign more[k] = bytes[8*(i+k)+7];
            end
            for (genvar k = 0; k < 11; k++) begin : g_zero
                assign zero[k] = bytes[8*(i+k)+:8] == 8'h00;
            end
            always_ff @(posedge clk) begin
                if (advance) begin
                    part[PART*i+:PART] <= part_of(bytes[8*i+:8], more, zero, bytes[8*(i+10)+:8] == 8'h80,
                                                  e[etm4_pkg::E_TWO]);
                    entry[ENTRY*i+:ENTRY] <= e;
                end
            end
        end
    endgenerate

    // The first part: it begins one lane after the header.
    logic [PART*LANES*FAR-1:0] parts;
    logic [ENTRY*LANES-1:0]    entry_1;
    word_window #(.WIDTH(PART * LANES), .WORDS(FAR)) window_of_parts (.clk, .advance, .in(part), .window(parts));
    word_delay #(.WIDTH(ENTRY * LANES), .WORDS(FAR - 1)) entries (.clk, .advance, .in(entry), .out(entry_1));

    function automatic [3:0] fixed_length(input [11:0] left);
        fixed_length = 4'd0;
        for (int k = 0; k < 12; k++) if (left[k]) fixed_length = fixed_length | 4'(k + 1);
    endfunction

    logic [4*LANES-1:0] first_2;
    logic [3*LANES-1:0] why_2;
    logic [LANES-1:0]   control_2, then_info, then_count, then_result, then_number;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_first
            logic [ENTRY-1:0] e;
            logic [PART-1:0]  p;
            logic [11:0]      left;
            logic [3:0]       n;
            logic             long_one;
            assign e = entry_1[ENTRY*i+:ENTRY];
            assign p = parts[PART*(LANES+i+1)+:PART];
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
                if (advance) begin
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
        end
    endgenerate

    // The second part: it begins where the first one ends.
    logic [4*LANES-1:0] first_3, second_3;
    logic [3*LANES-1:0] why_3;
    logic [LANES-1:0]   control_3;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_second
            logic [3:0] n, at;
            logic       too_long;
            logic [10*PART-1:0] p;  // at the byte after the header and those after it
            assign p = parts[PART*(i+1)+:10*PART];
            assign at = first_2[4*i+:4];
            always_comb begin
                n = 4'd0;
                too_long = 1'b0;
                for (int k = 1; k < 10; k++) begin
                    if (then_count[i] && at == 4'(k)) begin
                        n = {2'b0, p[PART*k+P_COUNT+:2]};
                        too_long = p[PART*k+P_LONG];
                    end
                    if (k < 7 && then_result[i] && at == 4'(k)) begin
                        n = p[PART*k+P_RESULT+:4];
                        too_long = p[PART*k+P_LONG+2];
                    end
                    if ((k == 1 || k == 2 || k == 4) && then_number[i] && at == 4'(k)) begin
                        n = {1'b0, p[PART*k+P_NUMBER+:3]};
                        too_long = p[PART*k+P_LONG+1];
                    end
                    if ((k == 4 || k == 8) && then_info[i] && at == 4'(k)) n = p[PART*k+P_INFO+:4];
                end
            end
            always_ff @(posedge clk) begin
                if (advance) begin
                    first_3[4*i+:4] <= at;
                    second_3[4*i+:4] <= n;
                    why_3[3*i+:3] <= too_long ? etm4_pkg::WHY_FIELD_TOO_LONG : why_2[3*i+:3];
                    control_3[i] <= control_2[i];
                end
            end
        end
    endgenerate

    logic [5*LANES-1:0] length_4;
    logic [4*LANES-1:0] first_4;
    logic [3*LANES-1:0] why_4;
    logic [LANES-1:0]   control_4;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_sum
            always_ff @(posedge clk)
                if (advance) length_4[5*i+:5] <= {1'b0, first_3[4*i+:4]} + {1'b0, second_3[4*i+:4]};
        end
    endgenerate
    always_ff @(posedge clk) begin
        if (advance) begin
            first_4 <= first_3;
            why_4 <= why_3;
            control_4 <= control_3;
        end
    end

    // Trace Info: PLCTL and as many fields as it has bits set.
    logic [3*LANES-1:0] number, sections;
    logic [LANES-1:0]   number_long;
    logic [6*LANES-1:0] info;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_number
            assign number[3*i+:3] = part[PART*i+P_NUMBER+:3];
            assign number_long[i] = part[PART*i+P_LONG+1];
            assign sections[3*i+:3] = entry[ENTRY*i+etm4_pkg::E_SECTIONS+:3];
        end
    endgenerate
    etm4_sections #(.LANES(LANES)) trace_info (
        .clk, .advance, .number, .number_long, .sections, .length(info)
    );

    logic [12*LANES-1:0]  info_2;
    word_window #(.WIDTH(6 * LANES), .WORDS(2)) window_of_info (.clk, .advance, .in(info), .window(info_2));

    logic [5*LANES-1:0] length_5;
    logic [4*LANES-1:0] first_5;
    logic [3*LANES-1:0] why_5;
    logic [LANES-1:0]   control_5;
    word_delay #(.WIDTH(13 * LANES), .WORDS(9 - AHEAD)) until_info (
        .clk, .advance, .in({length_4, first_4, why_4, control_4}), .out({length_5, first_5, why_5, control_5})
    );

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_length
            always_ff @(posedge clk) begin
                if (advance) begin
                    length[5*i+:5] <= control_5[i] ? info_2[6*(i+1)+:5] : length_5[5*i+:5];
                    first[4*i+:4] <= first_5[4*i+:4];
                    if (!control_5[i]) why[3*i+:3] <= why_5[3*i+:3];
                    else why[3*i+:3] <= info_2[6*(i+1)+5] ? etm4_pkg::WHY_FIELD_TOO_LONG : etm4_pkg::WHY_NONE;
                end
            end
        end
    endgenerate

endmodule
