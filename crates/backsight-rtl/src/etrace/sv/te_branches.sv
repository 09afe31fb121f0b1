// Branches that no packet has reported yet: a map of their outcomes (te_branch_map) or, with branch prediction, once 31 were
// predicted correctly their number beyond these.
//
// All outputs include the branch of this step.

module te_branches (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     push,       // the step is about a branch
    input  logic                     learn,      // it is decided about in this cycle
    input  logic [te_pkg::IADDR-1:0] address,
    input  logic                     not_taken,
    input  logic                     step,       // the step ends: keep what is there now
    input  logic                     clear,      // a packet has reported it
    input  logic                     forget,     // predictions begin again, before the branch of this step
    output logic [30:0]              map,
    output logic [4:0]               count,
    output logic                     counting,   // they are counted
    output logic [31:0]              counted,
    output logic                     most,       // no reader would believe more
    output logic                     failed,     // while they were counted, the latest was not predicted
    output logic                     full        // they need a packet
);

    logic [30:0] outcomes;
    logic [4:0]  in_map;
    logic        map_full, turns;

    generate
        if (te_pkg::BRANCH_PREDICTION) begin : g_predicted
            logic        correct, are_counted, all, all_now;
            logic [31:0] number;
            te_predictor predictor (
                .clk, .rst, .forget, .learn, .address, .taken(!not_taken), .correct
            );
            te_branch_map outcomes_kept (
                .clk, .rst, .push(push && !are_counted), .not_taken, .step, .clear(clear || step && turns),
                .now(outcomes), .count(in_map), .full(map_full)
            );
            assign all_now = all && (correct || !push);
            assign turns = map_full && all_now;
            assign counting = are_counted || turns;
            assign counted = number + 32'(push && are_counted && correct);
            assign most = counting && counted == te_pkg::MOST_COUNTED;
            assign failed = push && are_counted && !correct;
            always_ff @(posedge clk) begin
                if (rst || clear) begin
                    are_counted <= 1'b0;
                    number <= '0;
                    all <= 1'b1;
                end else if (step) begin
                    are_counted <= counting;
                    number <= counted;
                    all <= all_now;
                end
            end
        end else begin : g_map
            te_branch_map outcomes_kept (
                .clk, .rst, .push, .not_taken, .step, .clear, .now(outcomes), .count(in_map), .full(map_full)
            );
            assign {turns, counting, most, failed} = '0;
            assign counted = '0;
        end
    endgenerate
    assign map = turns ? '0 : outcomes;
    assign count = turns ? '0 : in_map;
    assign full = failed || map_full && !turns;

endmodule
