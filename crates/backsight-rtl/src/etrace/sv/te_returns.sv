// Implicit returns: what the return stack predicts is not sent, but counted, and where a packet follows a decoder is told how
// many there were. Without te_pkg::IMPLICIT_RETURN there are none.

module te_returns (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     step,        // an item is decided about
    input  logic                     forget,      // the stack begins again, before this step
    input  logic                     moves,       // a packet tells a decoder how far to go
    input  logic [3:0]               itype,
    input  logic                     updiscon,    // the item is an uninferable discontinuity that must be reported
    input  logic [te_pkg::IADDR-1:0] after_call,  // where it returns to, if it is a call
    input  logic                     next_valid,
    input  logic [te_pkg::IADDR-1:0] next_target, // where it went
    input  logic                     prev_valid,  // there is an item before
    output logic                     implicit,    // a return as predicted
    output logic                     wrong,       // a return that went elsewhere
    // Of the item before.
    output logic                     after_implicit,
    output logic                     after_last,  // a return as predicted, reported because no more can be counted
    output logic                     report,      // a packet has to tell the number of implicit returns …
    output logic [te_pkg::IRETS-1:0] irets        // … which is this
);

    generate
        if (te_pkg::IMPLICIT_RETURN) begin : g_stack
            logic is_return, is_call, empty, predicted, last;
            logic prev_implicit, prev_last, prev_wrong, prev_plain;
            logic [te_pkg::IADDR-1:0] target;
            logic [te_pkg::IRETS-1:0] irets_now;
            assign is_return = itype == te_pkg::ITYPE_RETURN;
            assign is_call = itype == te_pkg::ITYPE_UNINFERABLE_CALL || itype == te_pkg::ITYPE_INFERABLE_CALL;
            te_return_stack stack (
                .clk, .rst, .forget, .push(step && is_call), .address(after_call), .pop(step && is_return), .empty, .target
            );
            assign irets_now = irets + te_pkg::IRETS'(after_implicit);
            assign predicted = next_valid && (te_pkg::STACK == 0 || target == next_target);
            assign last = irets_now == '1;
            assign implicit = is_return && !empty && predicted && !last;
            assign wrong = is_return && !empty && !predicted;
            assign after_implicit = prev_valid && prev_implicit;
            assign after_last = prev_valid && prev_last;
            // A decoder takes every return before an uninferable jump that is none itself.
            assign report = after_implicit || after_last || prev_valid && prev_wrong
                || irets != '0 && !(prev_valid && prev_plain);
            always_ff @(posedge clk) begin
                if (step) begin
                    prev_implicit <= implicit;
                    prev_last <= is_return && !empty && predicted && last;
                    prev_wrong <= wrong;
                    prev_plain <= updiscon && !is_return;
                end
                if (rst || moves) irets <= '0;
                else if (step) irets <= itype == te_pkg::ITYPE_TAKEN || itype == te_pkg::ITYPE_NOT_TAKEN ? '0 : irets_now;
            end
        end else begin : g_none
            assign {implicit, wrong, after_implicit, after_last, report} = '0;
            assign irets = '0;
        end
    endgenerate

endmodule
