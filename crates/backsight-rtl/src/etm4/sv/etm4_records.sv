// The decoder for those who want records only: synthesis removes what nothing else needs.
//
//   LANES   bytes a cycle
//
// Inputs and records as in etm4_decoder.

// verilator lint_off PINMISSING
module etm4_records #(
    parameter int LANES = @LANES@
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                gap,
    input  logic                flush, //@prefix
    input  logic [LANES-1:0]    keep,
    input  logic [8*LANES-1:0]  data,
    output logic                record_gap,
    output logic [3*LANES-1:0]  record_kind,
    output logic [etm4_pkg::CYCLE*LANES-1:0] record_cycle,
    output logic [64*LANES-1:0] record_value
);

    etm4_decoder #(.LANES(LANES)) decoder (
        .clk, .rst, .gap,
        .flush, //@prefix
        .keep, .data, .record_gap, .record_kind, .record_cycle, .record_value
    );

endmodule
// verilator lint_on PINMISSING
