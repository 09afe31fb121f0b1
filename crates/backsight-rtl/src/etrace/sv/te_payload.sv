// Requests to payloads: fields side by side, least significant bit first, with sign-based compression.
//
// Three stages: the address field (a difference, or the address itself); the fields of the format in their positions, with
// the top bit repeated above them; the fewest bytes from which a reader can repeat it.

module te_payload (
    input  logic clk,
    input  logic rst,
    input  logic                        req_valid,
    input  logic [2:0]                  req_kind,
    input  logic [te_pkg::IADDR-1:0]    req_address,
    input  logic [te_pkg::IADDR-1:0]    req_from,
    input  logic [30:0]                 req_map,
    input  logic [4:0]                  req_count,
    input  logic                        req_notify,
    input  logic                        req_updiscon,
    input  logic                        req_branch,
    input  logic [te_pkg::PRIV-1:0]     req_priv,
    input  logic [te_pkg::CONTEXT-1:0]  req_context,
    input  logic [te_pkg::TIME-1:0]     req_time,
    input  logic                        req_thaddr,
    input  logic                        req_interrupt,
    input  logic [te_pkg::ECAUSE-1:0]   req_cause,
    input  logic [te_pkg::IADDR-1:0]    req_tval,
    input  logic                        req_ienable,
    input  logic [1:0]                  req_status,
    output logic                        out_valid,
    output logic [te_pkg::PAYLOAD-1:0]  out_payload,
    output logic [4:0]                  out_bytes
);

    localparam int F = te_pkg::FIELD;
    localparam int W = te_pkg::PAYLOAD;
    localparam int T = te_pkg::HAS_TIME ? te_pkg::TIME : 0;
    localparam int C = te_pkg::HAS_CONTEXT ? te_pkg::CONTEXT : 0;
    // Bits of the head of format 3, from the privilege on: before the address of a start, and before the cause of a trap.
    localparam int SHARED = te_pkg::PRIV + T + C;
    localparam int START_AT = 5 + SHARED;
    localparam int ADDRESS_AT = START_AT + te_pkg::ECAUSE + 2;

    // Stage 1: the address field.
    logic                      a_valid, a_notify, a_updiscon, a_branch, a_thaddr, a_interrupt, a_ienable;
    logic [2:0]                a_kind;
    logic [te_pkg::IADDR-1:0]  difference;
    logic [F-1:0]              a_field;
    logic [30:0]               a_map;
    logic [4:0]                a_count;
    logic [SHARED-1:0]         shared, a_shared;
    logic [te_pkg::ECAUSE-1:0] a_cause;
    logic [te_pkg::IADDR-1:0]  a_tval;
    logic [1:0]                a_status;
    logic                      relative;
    assign relative = req_kind == te_pkg::PACKET_ADDRESS && !te_pkg::FULL_ADDRESS;
    assign difference = req_address - (relative ? req_from : '0);
    generate
        if (te_pkg::HAS_TIME && te_pkg::HAS_CONTEXT) begin : g_both
            assign shared = {req_context, req_time, req_priv};
        end else if (te_pkg::HAS_TIME) begin : g_time
            assign shared = {req_time, req_priv};
        end else if (te_pkg::HAS_CONTEXT) begin : g_context
            assign shared = {req_context, req_priv};
        end else begin : g_none
            assign shared = req_priv;
        end
    endgenerate

    always_ff @(posedge clk) begin
        a_valid <= req_valid && !rst;
        a_kind <= req_kind;
        // A full map goes without an address: its last outcome is repeated instead.
        a_field <= req_kind == te_pkg::PACKET_MAP ? {F{req_map[30]}} : difference[te_pkg::IADDR-1:te_pkg::LSB];
        a_map <= req_map;
        a_count <= req_count;
        a_notify <= req_notify && req_kind == te_pkg::PACKET_ADDRESS;
        a_updiscon <= req_updiscon && req_kind == te_pkg::PACKET_ADDRESS;
        a_branch <= req_branch || req_kind == te_pkg::PACKET_TRAP && !req_thaddr;
        a_shared <= shared;
        a_thaddr <= req_thaddr;
        a_interrupt <= req_interrupt;
        a_cause <= req_cause;
        a_tval <= req_tval;
        a_ienable <= req_ienable;
        a_status <= req_status;
    end

    // Stage 2: the fields in their positions. Each flag after an address is whether it differs from the bit before it.
    logic         top, notify, updiscon;
    logic [W-1:0] tail, branches, format3, trap, support, fields;
    logic [4:0]   counted;
    assign top = a_field[F-1];
    assign notify = a_notify != top;
    assign updiscon = a_updiscon != notify;
    assign tail = {{(W - F - 2){updiscon}}, updiscon, notify, a_field};
    assign counted = a_kind == te_pkg::PACKET_MAP ? 5'd0 : a_count;

    always_comb begin
        if (a_kind == te_pkg::PACKET_MAP || a_count[4]) branches = {tail[W-39:0], a_map, counted, 2'd1};
        else if (a_count[3]) branches = {tail[W-23:0], a_map[14:0], counted, 2'd1};
        else if (a_count[2]) branches = {tail[W-15:0], a_map[6:0], counted, 2'd1};
        else if (a_count[1]) branches = {tail[W-11:0], a_map[2:0], counted, 2'd1};
        else if (a_count[0]) branches = {tail[W-9:0], a_map[0], counted, 2'd1};
        else branches = {tail[W-3:0], 2'd2};
    end

    generate
        if (te_pkg::IMPLICIT_EXCEPTION) begin : g_implicit
            logic [W-1:0] with_tval, with_address, with_both;
            assign with_tval = {{(W - ADDRESS_AT - te_pkg::IADDR){a_tval[te_pkg::IADDR-1]}}, a_tval, a_thaddr, a_interrupt,
                a_cause, a_shared, a_branch, 4'b0111};
            assign with_address = {{(W - ADDRESS_AT - F){top}}, a_field, a_thaddr, a_interrupt, a_cause, a_shared, a_branch, 4'b0111};
            assign with_both = {{(W - ADDRESS_AT - F - te_pkg::IADDR){a_tval[te_pkg::IADDR-1]}}, a_tval, a_field, a_thaddr, a_interrupt, a_cause, a_shared,
                a_branch, 4'b0111};
            assign trap = a_thaddr && a_interrupt
                ? {{(W - ADDRESS_AT){1'b1}}, a_thaddr, a_interrupt, a_cause, a_shared, a_branch, 4'b0111}
                : a_thaddr ? with_tval : a_interrupt ? with_address : with_both;
        end else begin : g_explicit
            assign trap = a_interrupt
                ? {{(W - ADDRESS_AT - F){top}}, a_field, a_thaddr, a_interrupt, a_cause, a_shared, a_branch, 4'b0111}
                : {{(W - ADDRESS_AT - F - te_pkg::IADDR){a_tval[te_pkg::IADDR-1]}}, a_tval, a_field, a_thaddr, a_interrupt,
                   a_cause, a_shared, a_branch, 4'b0111};
        end
    endgenerate

    assign format3 = a_kind == te_pkg::PACKET_CONTEXT
        ? {{(W - SHARED - 4){a_shared[SHARED-1]}}, a_shared, 4'b1011}
        : {{(W - START_AT - F){top}}, a_field, a_shared, a_branch, 4'b0011};
    always_comb begin
        support = {{(W - 64){te_pkg::SUPPORT[63]}}, te_pkg::SUPPORT};
        support[te_pkg::IENABLE_AT] = a_ienable;
        support[te_pkg::STATUS_AT+:2] = a_status;
    end

    always_comb begin
        case (a_kind)
            te_pkg::PACKET_SUPPORT: fields = support;
            te_pkg::PACKET_START, te_pkg::PACKET_CONTEXT: fields = format3;
            te_pkg::PACKET_TRAP: fields = trap;
            default: fields = branches;
        endcase
    end

    logic         b_valid;
    logic [W-1:0] b_payload;
    always_ff @(posedge clk) begin
        b_valid <= a_valid && !rst;
        b_payload <= fields;
    end

    // Stage 3: a byte is needed if it is not all sign, or the byte below does not end in the sign.
    logic [4:0] bytes;
    always_comb begin
        bytes = 5'd1;
        for (int i = 1; i < te_pkg::BYTES; i++)
            if (b_payload[8*i-1+:9] != {9{b_payload[W-1]}}) bytes = 5'(i + 1);
    end

    always_ff @(posedge clk) begin
        out_valid <= b_valid && !rst;
        out_payload <= b_payload;
        out_bytes <= bytes;
    end

endmodule
