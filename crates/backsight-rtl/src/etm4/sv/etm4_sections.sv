// How many bytes one to six continued fields have together that begin at a lane: PLCTL and the sections of a Trace Info.
//
// D(1, p) is the length of the field at p; D(k + 1, p) is that length plus D(k, next field). Each step needs the first
// lanes of the word after, and so comes one word later. A field that is too long ends the packet.
//
//   LANES   bytes of a word, 5 or more
//
// `next` says when the lengths of a word come out.

module etm4_sections #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               step,         // a word is at the inputs
    input  logic [3*LANES-1:0] number,       // bytes of the field of each lane, 1 to 5
    input  logic [LANES-1:0]   number_long,  // it is too long
    input  logic [3*LANES-1:0] sections,     // fields after this one, 0 to 5, if it is PLCTL
    output logic               next,         // `length` is that of a word in the next cycle
    output logic [6*LANES-1:0] length        // bit 5: a field is too long
);

    localparam int STEPS = 5;

    // Before step k: D(k + 1), the field, how many sections there are, and D of so many sections if they are fewer than k.
    logic [STEPS:0]     at;
    logic [6*LANES-1:0] sum   [0:STEPS];
    logic [4*LANES-1:0] field [0:STEPS];
    logic [3*LANES-1:0] count [0:STEPS];
    logic [6*LANES-1:0] total [0:STEPS];

    logic [6*LANES-1:0] one;
    logic [4*LANES-1:0] fields;
    assign at[0] = step;
    assign sum[0] = one;
    assign field[0] = fields;
    assign count[0] = sections;
    assign total[0] = one;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_first
            assign one[6*i+:6] = {number_long[i], 2'b0, number[3*i+:3]};
            assign fields[4*i+:4] = {number_long[i], number[3*i+:3]};
        end
        for (genvar k = 0; k < STEPS; k++) begin : g_step
            logic                there, at_q;
            logic [12*LANES-1:0] both;
            logic [6*LANES-1:0]  sum_q, total_s, total_q;
            logic [4*LANES-1:0]  field_1, field_q;
            logic [3*LANES-1:0]  count_1, count_q;
            word_window #(.WIDTH(6 * LANES), .WORDS(2)) sums (
                .clk, .rst, .step(at[k]), .in(sum[k]), .filled(there), .window(both)
            );
            word_delay #(.WIDTH(7 * LANES), .WORDS(1)) own (
                .clk, .step(at[k]), .in({field[k], count[k]}), .out({field_1, count_1})
            );
            if (k > 0) begin : g_total
                logic [6*LANES-1:0] total_1;
                word_delay #(.WIDTH(6 * LANES), .WORDS(1)) own_total (
                    .clk, .step(at[k]), .in(total[k]), .out(total_1)
                );
                for (genvar i = 0; i < LANES; i++) begin : g_fewer
                    assign total_s[6*i+:6] = count_1[3*i+:3] < 3'(k) ? total_1[6*i+:6] : both[6*i+:6];
                end
            end else begin : g_one
                assign total_s = both[6*LANES-1:0];
            end
            // The field after, and then the sum.
            logic                at_1;
            logic [6*LANES-1:0]  after, total_2;
            logic [4*LANES-1:0]  field_2;
            logic [3*LANES-1:0]  count_2;
            for (genvar i = 0; i < LANES; i++) begin : g_lane
                always_ff @(posedge clk) begin
                    case (field_1[4*i+:3])
                        3'd1: after[6*i+:6] <= both[6*(i+1)+:6];
                        3'd2: after[6*i+:6] <= both[6*(i+2)+:6];
                        3'd3: after[6*i+:6] <= both[6*(i+3)+:6];
                        3'd4: after[6*i+:6] <= both[6*(i+4)+:6];
                        default: after[6*i+:6] <= both[6*(i+5)+:6];
                    endcase
                    if (field_2[4*i+3]) sum_q[6*i+:6] <= {3'b100, field_2[4*i+:3]};
                    else sum_q[6*i+:6] <= {after[6*i+5], after[6*i+:5] + {2'b0, field_2[4*i+:3]}};
                end
            end
            always_ff @(posedge clk) begin
                at_1 <= there && !rst;
                total_2 <= total_s;
                field_2 <= field_1;
                count_2 <= count_1;
                at_q <= at_1 && !rst;
                total_q <= total_2;
                field_q <= field_2;
                count_q <= count_2;
            end
            assign at[k+1] = at_q;
            assign sum[k+1] = sum_q;
            assign field[k+1] = field_q;
            assign count[k+1] = count_q;
            assign total[k+1] = total_q;
        end
    endgenerate

    assign next = at[STEPS];
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_length
            always_ff @(posedge clk)
                length[6*i+:6] <= count[STEPS][3*i+:3] < 3'd5 ? total[STEPS][6*i+:6] : sum[STEPS][6*i+:6];
        end
    endgenerate

endmodule
