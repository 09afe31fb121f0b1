// Return addresses of the calls under way, for implicit returns: where does the next return go to?
//
// With te_pkg::STACK it holds 2^STACK addresses; when it is full the oldest is dropped. With te_pkg::CALLS beside it, an entry
// counts how often the same call was repeated. With CALLS alone calls are only counted, 2^CALLS at most, and `target` says
// nothing.

module te_return_stack (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     forget,     // before this step
    input  logic                     push,       // a call …
    input  logic [te_pkg::IADDR-1:0] address,    // … that returns to here
    input  logic                     pop,        // a return
    output logic                     empty,
    output logic [te_pkg::IADDR-1:0] target
);

    localparam int A = te_pkg::IADDR;
    localparam int LEVELS = te_pkg::STACK > 0 ? te_pkg::STACK : te_pkg::CALLS;
    localparam logic [LEVELS:0] MOST = (LEVELS + 1)'(1 << LEVELS);

    logic [LEVELS:0] depth, known;
    logic            repeats, more, fewer;   // the newest entry has repeats; one is added; one is taken away
    assign known = forget ? '0 : depth;
    assign empty = known == '0;

    always_ff @(posedge clk) begin
        if (rst) depth <= '0;
        else if (push && !more && known != MOST) depth <= known + 1'b1;
        else if (pop && !fewer && !empty) depth <= known - 1'b1;
        else depth <= known;
    end

    generate
        if (te_pkg::STACK > 0) begin : g_addresses
            localparam int R = te_pkg::CALLS > 0 ? te_pkg::CALLS : 1;
            (* ram_style = "distributed" *) logic [A+R-1:0] entries [0:(1<<LEVELS)-1];
            logic [LEVELS-1:0] top, newest;   // the place for the next entry, and the one before
            logic [A+R-1:0]    entry;
            logic [R-1:0]      count;
            assign newest = top - 1'b1;
            assign entry = entries[newest];
            assign target = entry[A-1:0];
            assign count = entry[A+R-1:A];
            assign repeats = te_pkg::CALLS > 0 && count != '0;
            assign more = te_pkg::CALLS > 0 && !empty && target == address && count != '1;
            assign fewer = repeats && !empty;
            always_ff @(posedge clk) begin
                if (rst) top <= '0;
                else if (push && !more) top <= top + 1'b1;
                else if (pop && !fewer && !empty) top <= newest;
                if (push && !more) entries[top] <= {R'(0), address};
                else if (push) entries[newest] <= {count + 1'b1, target};
                else if (pop && fewer) entries[newest] <= {count - 1'b1, target};
            end
        end else begin : g_count
            assign target = '0;
            assign {repeats, more, fewer} = '0;
        end
    endgenerate

endmodule
