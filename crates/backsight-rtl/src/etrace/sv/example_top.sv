// Example for a small board (ULX3S, Lattice ECP5): a stand-in for a core runs a loop, and its trace leaves over the USB
// serial line.
//
// Serial line: 115200 baud, 8N1; the bytes are a capture (`backsight packets` reads it with the configuration in te_pkg.sv).
// The stand-in commits one instruction in every second cycle, unless the encoder asks it to wait:
//   80000000 addi, 80000004 branch to 80000000 (taken seven times out of eight), 80000008 jalr to 80000000
// Lamp 7 lights while it waits, lamp 6 after a loss; the others count turns. The first button ends the trace.

module example_top #(
    parameter int CLOCK = 25_000_000,
    parameter int BAUD = 115_200
) (
    input  logic       clk_25mhz,
    input  logic       btn_fire1,
    output logic       ftdi_rxd,
    output logic [7:0] led
);

    localparam int BIT = CLOCK / BAUD;
    localparam logic [te_pkg::IADDR-1:0] START = te_pkg::IADDR'(32'h8000_0000);

    // Reset for the first cycles after configuration.
    logic [3:0] started = 4'd0;
    logic       rst;
    assign rst = started != 4'hF;
    always_ff @(posedge clk_25mhz) if (rst) started <= started + 4'd1;

    // The stand-in: a branch is resolved in the cycle before it commits.
    logic [1:0]  at;
    logic [15:0] turns;
    logic        commits, taken, stall, lost;
    assign taken = turns[2:0] != 3'd0;
    always_ff @(posedge clk_25mhz) begin
        if (rst) begin
            at <= 2'd0;
            turns <= 16'd0;
            commits <= 1'b0;
        end else begin
            commits <= !commits && !stall;
            if (commits) begin
                at <= at == 2'd2 || at == 2'd1 && taken ? 2'd0 : at + 2'd1;
                if (at == 2'd1) turns <= turns + 16'd1;
            end
        end
    end

    logic [te_pkg::IADDR-1:0] pc;
    logic [2:0]               op;
    assign pc = START + te_pkg::IADDR'({at, 2'b0});
    assign op = at == 2'd1 ? te_pkg::OP_BRANCH : at == 2'd2 ? te_pkg::OP_JALR : te_pkg::OP_OTHER;

    logic                     at_valid, at_ready;
    logic [8*te_pkg::BUS-1:0] at_data;
    te_top encoder (
        .clk(clk_25mhz), .rst, .enable(!btn_fire1), .stall,
        .commit_valid(te_pkg::PORTS'(commits)), .commit_pc((te_pkg::PORTS * te_pkg::IADDR)'(pc)),
        .commit_op((3 * te_pkg::PORTS)'(op)),
        .commit_itype('0), .commit_compressed('0), .commit_sijump('0),
        .resolved_valid(!commits && !stall && at == 2'd1), .resolved_pc(START + te_pkg::IADDR'(4)), .resolved_taken(taken),
        .resolved_kind(te_pkg::FLOW_BRANCH), .flush(1'b0),
        .trap_valid(1'b0), .trap_interrupt(1'b0), .trap_cause('0), .trap_tval('0),
        .priv(te_pkg::PRIV'(3)), .context_id('0), .ctype(2'd0), .core_time('0),
        .filter_trace(1'b1), .filter_iaddr_enable(1'b0), .filter_iaddr_lower('0), .filter_iaddr_upper('0),
        .filter_priv_enable(1'b0), .filter_priv_lower('0), .filter_priv_upper('0), .filter_cause_enable(1'b0),
        .filter_cause_lower('0), .filter_cause_upper('0), .filter_tval_enable(1'b0), .filter_tval_lower('0),
        .filter_tval_upper('0), .filter_tvec_enable(1'b0), .filter_tvec_lower('0), .filter_tvec_upper('0),
        .at_valid, .at_ready, .at_data, .at_bytes(), .af_valid(1'b0), .af_ready(), .lost
    );

    // The serial line: a start bit, eight bits, a stop bit. With wider words only the lowest byte is sent.
    logic [15:0] wait_for;
    logic [3:0]  bits;
    logic [8:0]  shift;
    assign at_ready = bits == 4'd0;
    always_ff @(posedge clk_25mhz) begin
        if (rst) begin
            bits <= 4'd0;
            wait_for <= 16'd0;
            ftdi_rxd <= 1'b1;
        end else if (bits == 4'd0) begin
            ftdi_rxd <= 1'b1;
            if (at_valid) begin
                shift <= {1'b1, at_data[7:0]};
                bits <= 4'd10;
                wait_for <= 16'(BIT - 1);
                ftdi_rxd <= 1'b0;
            end
        end else if (wait_for != 16'd0) begin
            wait_for <= wait_for - 16'd1;
        end else begin
            wait_for <= 16'(BIT - 1);
            bits <= bits - 4'd1;
            {shift, ftdi_rxd} <= {1'b1, shift};
        end
    end

    always_ff @(posedge clk_25mhz) begin
        led[5:0] <= turns[15:10];
        led[6] <= !rst && (led[6] || lost);
        led[7] <= stall;
    end

endmodule
