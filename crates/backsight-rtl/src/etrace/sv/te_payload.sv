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
    input  logic [31:0]                 req_counted,
    input  logic                        req_failed,
    input  logic                        req_cached,
    input  logic                        req_irreport,
    input  logic [te_pkg::IRETS-1:0]    req_irets,
    output logic                        weighed,        // an address that is in the jump target cache …
    output logic                        as_index,       // … is sent as its index
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
    logic [te_pkg::IADDR-1:0]  less, difference;
    logic [F-1:0]              a_field;
    logic [30:0]               a_map;
    logic [4:0]                a_count;
    logic [SHARED-1:0]         shared, a_shared;
    logic [te_pkg::ECAUSE-1:0] a_cause;
    logic [te_pkg::IADDR-1:0]  a_tval;
    logic [1:0]                a_status;
    logic                      named, a_failed, a_cached, a_irreport;
    logic [31:0]               a_counted;
    logic [te_pkg::IRETS-1:0]  a_irets;
    logic                      relative, full_map, one, unused;
    assign named = req_kind == te_pkg::PACKET_ADDRESS || te_pkg::BRANCH_PREDICTION && req_kind == te_pkg::PACKET_COUNTED;
    assign relative = named && !te_pkg::FULL_ADDRESS;
    // A full map goes without an address: its last outcome is repeated instead. An address and its complement make ones only,
    // and one more makes zeros: no multiplexer comes after the sum.
    assign full_map = req_kind == te_pkg::PACKET_MAP;
    assign less = full_map ? req_address : relative ? req_from : '0;
    assign one = !(full_map && req_map[30]);
    assign {difference, unused} = {req_address, 1'b1} + {~less, one};
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
        a_field <= difference[te_pkg::IADDR-1:te_pkg::LSB];
        a_map <= req_map;
        a_count <= req_count;
        a_notify <= req_notify && named;
        a_updiscon <= req_updiscon && named;
        a_irreport <= req_irreport && named;
        a_irets <= req_irets;
        a_counted <= req_counted;
        a_failed <= req_failed;
        a_cached <= req_cached;
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
    assign tail = te_pkg::IMPLICIT_RETURN && a_irreport
        ? {{(W - F - 3 - te_pkg::IRETS){a_irets[te_pkg::IRETS-1]}}, a_irets, !updiscon, updiscon, notify, a_field}
        : {{(W - F - 2){updiscon}}, updiscon, notify, a_field};
    assign counted = a_kind == te_pkg::PACKET_MAP ? 5'd0 : a_count;

    always_comb begin
        if (a_kind == te_pkg::PACKET_MAP || a_count[4]) branches = {tail[W-39:0], a_map, counted, 2'd1};
        else if (a_count[3]) branches = {tail[W-23:0], a_map[14:0], counted, 2'd1};
        else if (a_count[2]) branches = {tail[W-15:0], a_map[6:0], counted, 2'd1};
        else if (a_count[1]) branches = {tail[W-11:0], a_map[2:0], counted, 2'd1};
        else if (a_count[0]) branches = {tail[W-9:0], a_map[0], counted, 2'd1};
        else branches = {tail[W-3:0], 2'd2};
    end

    // A trap: its cause, then the address, the trap value, both or neither.
    logic [ADDRESS_AT-1:0] trap_head;
    logic [W-1:0]          with_tval, with_address, with_both;
    assign trap_head = {a_thaddr, a_interrupt, a_cause, a_shared, a_branch, 4'b0111};
    assign with_tval = {{(W - ADDRESS_AT - te_pkg::IADDR){a_tval[te_pkg::IADDR-1]}}, a_tval, trap_head};
    assign with_address = {{(W - ADDRESS_AT - F){top}}, a_field, trap_head};
    assign with_both = {{(W - ADDRESS_AT - F - te_pkg::IADDR){a_tval[te_pkg::IADDR-1]}}, a_tval, a_field, trap_head};
    generate
        if (te_pkg::IMPLICIT_EXCEPTION) begin : g_implicit
            assign trap = a_thaddr && a_interrupt ? {{(W - ADDRESS_AT){1'b1}}, trap_head}
                : a_thaddr ? with_tval : a_interrupt ? with_address : with_both;
        end else begin : g_explicit
            assign trap = a_interrupt ? with_address : with_both;
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

    // Format 0: the number of predicted branches, with or without an address.
    logic [W-1:0] predicted;
    generate
        if (te_pkg::BRANCH_PREDICTION) begin : g_predicted
            localparam int HEAD = 2 + te_pkg::SUBFORMAT + 32 + 2;
            assign predicted = a_kind == te_pkg::PACKET_COUNT
                ? W'({a_counted, (2 + te_pkg::SUBFORMAT)'(0)})
                : {tail[W-HEAD-1:0], 1'b1, a_failed, a_counted, (2 + te_pkg::SUBFORMAT)'(0)};
        end else begin : g_not_predicted
            assign predicted = '0;
        end
    endgenerate

    always_comb begin
        case (a_kind)
            te_pkg::PACKET_SUPPORT: fields = support;
            te_pkg::PACKET_START, te_pkg::PACKET_CONTEXT: fields = format3;
            te_pkg::PACKET_TRAP: fields = trap;
            te_pkg::PACKET_COUNTED, te_pkg::PACKET_COUNT: fields = te_pkg::BRANCH_PREDICTION ? predicted : branches;
            default: fields = branches;
        endcase
    end

    logic         b_valid;
    logic [W-1:0] b_payload;
    always_ff @(posedge clk) begin
        b_valid <= a_valid && !rst;
        b_payload <= fields;
    end

    // Stage 3: the fewest bytes. An address that is in the jump target cache is sent as its index, unless it is shorter itself.
    logic [4:0] bytes;
    te_payload_length length (.payload(b_payload), .bytes);
    generate
        if (te_pkg::JUMP_CACHE) begin : g_cache
            logic [te_pkg::IADDR-1:0] a_address;
            logic [W-1:0]             index, b_index;
            logic [4:0]               index_bytes;
            logic                     b_cached, shorter;
            te_payload_index named_by_index (
                .address(a_address), .map(a_map), .count(a_count), .irreport(a_irreport), .irets(a_irets), .payload(index)
            );
            te_payload_length index_length (.payload(b_index), .bytes(index_bytes));
            assign shorter = b_cached && bytes >= index_bytes;
            always_ff @(posedge clk) begin
                a_address <= req_address;
                b_cached <= a_valid && a_cached;
                b_index <= index;
                weighed <= b_cached && !rst;
                as_index <= shorter;
                out_payload <= shorter ? b_index : b_payload;
                out_bytes <= shorter ? index_bytes : bytes;
            end
        end else begin : g_addresses
            assign {weighed, as_index} = '0;
            always_ff @(posedge clk) begin
                out_payload <= b_payload;
                out_bytes <= bytes;
            end
        end
    endgenerate

    always_ff @(posedge clk) out_valid <= b_valid && !rst;

endmodule
