// How many bytes one to six continued fields have together that begin at a lane: PLCTL and the sections of a Trace Info.
//
// D(1, p) is the length of the field at lane p; D(k + 1, p) is that length plus D(k, next field). Each step looks at the
// word after, and so takes two words. A field that is too long ends the packet.
//
//   LANES   bytes of a word, 5 or more
//
// Latency: eleven words.

module etm4_sections #(
    parameter int LANES = 8
) (
    input  logic               clk,
    input  logic               advance,
    input  logic [3*LANES-1:0] number,       // bytes of the field at each lane, 1 to 5
    input  logic [LANES-1:0]   number_long,  // it is too long
    input  logic [3*LANES-1:0] sections,     // fields after this one, 0 to 5, if it is PLCTL
    output logic [6*LANES-1:0] length        // bit 5: a field is too long
);

    localparam int STEPS = 5;

    // D(k + 1) and the fields, as they come out of step k.
    logic [6*LANES-1:0] sum    [0:STEPS];
    logic [4*LANES-1:0] fields [0:STEPS];
    logic [6*LANES-1:0] total  [0:STEPS];
    logic [3*LANES-1:0] sections_1;

    logic [6*LANES-1:0] one;
    logic [4*LANES-1:0] field;
    assign sum[0] = one;
    assign fields[0] = field;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_first
            assign one[6*i+:6] = {number_long[i], 2'b0, number[3*i+:3]};
            assign field[4*i+:4] = {number_long[i], number[3*i+:3]};
        end
        for (genvar k = 0; k < STEPS; k++) begin : g_step
            logic [12*LANES-1:0] both;
            logic [6*LANES-1:0]  own, sum_q;
            logic [4*LANES-1:0]  own_fields, fields_q;
            word_delay #(.WIDTH(10 * LANES), .WORDS(1)) older (
                .clk, .advance, .in({sum[k], fields[k]}), .out({own, own_fields})
            );
            assign both = {sum[k], own};
            for (genvar i = 0; i < LANES; i++) begin : g_lane
                logic [5:0] after;
                always_comb begin
                    case (own_fields[4*i+:3])
                        3'd1: after = both[6*(i+1)+:6];
                        3'd2: after = both[6*(i+2)+:6];
                        3'd3: after = both[6*(i+3)+:6];
                        3'd4: after = both[6*(i+4)+:6];
                        default: after = both[6*(i+5)+:6];
                    endcase
                end
                always_ff @(posedge clk) begin
                    if (advance) begin
                        if (own_fields[4*i+3]) sum_q[6*i+:6] <= {3'b100, own_fields[4*i+:3]};
                        else sum_q[6*i+:6] <= {after[5], after[4:0] + {2'b0, own_fields[4*i+:3]}};
                    end
                end
            end
            always_ff @(posedge clk) if (advance) fields_q <= own_fields;
            assign sum[k+1] = sum_q;
            assign fields[k+1] = fields_q;
            word_delay #(.WIDTH(6 * LANES), .WORDS(2 * (STEPS - k))) until_last (
                .clk, .advance, .in(sum[k]), .out(total[k])
            );
        end
    endgenerate
    assign total[STEPS] = sum[STEPS];
    word_delay #(.WIDTH(3 * LANES), .WORDS(2 * STEPS)) sections_of (
        .clk, .advance, .in(sections), .out(sections_1)
    );

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_total
            always_ff @(posedge clk) begin
                if (advance) begin
                    case (sections_1[3*i+:3])
                        3'd0: length[6*i+:6] <= total[0][6*i+:6];
                        3'd1: length[6*i+:6] <= total[1][6*i+:6];
                        3'd2: length[6*i+:6] <= total[2][6*i+:6];
                        3'd3: length[6*i+:6] <= total[3][6*i+:6];
                        3'd4: length[6*i+:6] <= total[4][6*i+:6];
                        default: length[6*i+:6] <= total[5][6*i+:6];
                    endcase
                end
            end
        end
    endgenerate

endmodule
