// Which blocks are traced: a comparator for each input.
//
// Every enabled input must lie between its bounds, both included (the same bound twice is a match). What is refused is
// handed on as a gap. Which comparators there are is fixed in te_pkg; tvec is where the latest trap led to.

module te_filter (
    input  logic clk,
    input  logic rst,
    input  logic                        trace,          // low: nothing is traced
    input  logic                        iaddr_enable,
    input  logic [te_pkg::IADDR-1:0]    iaddr_lower,
    input  logic [te_pkg::IADDR-1:0]    iaddr_upper,
    input  logic                        priv_enable,
    input  logic [te_pkg::PRIV-1:0]     priv_lower,
    input  logic [te_pkg::PRIV-1:0]     priv_upper,
    input  logic                        cause_enable,
    input  logic [te_pkg::ECAUSE-1:0]   cause_lower,
    input  logic [te_pkg::ECAUSE-1:0]   cause_upper,
    input  logic                        tval_enable,
    input  logic [te_pkg::IADDR-1:0]    tval_lower,
    input  logic [te_pkg::IADDR-1:0]    tval_upper,
    input  logic                        tvec_enable,
    input  logic [te_pkg::IADDR-1:0]    tvec_lower,
    input  logic [te_pkg::IADDR-1:0]    tvec_upper,
    // The block, and when it is taken.
    input  logic                        taken,
    input  logic [1:0]                  kind,
    input  logic [te_pkg::IADDR-1:0]    iaddr,
    input  logic                        retired,
    input  logic [3:0]                  itype,
    input  logic [te_pkg::PRIV-1:0]     priv,
    input  logic [te_pkg::ECAUSE-1:0]   cause,
    input  logic [te_pkg::IADDR-1:0]    tval,
    output logic [1:0]                  out_kind
);

    logic trap, trapped;
    logic [te_pkg::IADDR-1:0] tvec, tvec_now;

    // Only traps have a cause, only exceptions a value.
    logic [te_pkg::ECAUSE-1:0] cause_now;
    logic [te_pkg::IADDR-1:0]  tval_now;
    assign trap = itype == te_pkg::ITYPE_EXCEPTION || itype == te_pkg::ITYPE_INTERRUPT;
    assign cause_now = trap ? cause : '0;
    assign tval_now = itype == te_pkg::ITYPE_EXCEPTION ? tval : '0;
    assign tvec_now = trapped && retired ? iaddr : tvec;

    logic passes;
    assign passes = trace
        && (!te_pkg::FILTER_IADDR || !iaddr_enable || iaddr >= iaddr_lower && iaddr <= iaddr_upper)
        && (!te_pkg::FILTER_PRIV || !priv_enable || priv >= priv_lower && priv <= priv_upper)
        && (!te_pkg::FILTER_CAUSE || !cause_enable || cause_now >= cause_lower && cause_now <= cause_upper)
        && (!te_pkg::FILTER_TVAL || !tval_enable || tval_now >= tval_lower && tval_now <= tval_upper)
        && (!te_pkg::FILTER_TVEC || !tvec_enable || tvec_now >= tvec_lower && tvec_now <= tvec_upper);
    assign out_kind = kind == te_pkg::IN_BLOCK && !passes ? te_pkg::IN_GAP : kind;

    always_ff @(posedge clk) begin
        if (rst) begin
            trapped <= 1'b0;
            tvec <= '0;
        end else if (taken && kind == te_pkg::IN_BLOCK) begin
            trapped <= trap;
            tvec <= tvec_now;
        end
    end

endmodule
