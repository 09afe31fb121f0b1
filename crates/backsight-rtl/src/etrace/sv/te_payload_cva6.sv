// Requests to payloads, as the encoder of the thesis for CVA6 has them: only the address is compressed, in place.
//
// An address has as many whole bytes as it needs, and one bit of sign; what follows it moves down. Payloads are padded with
// zeros. Three stages: the address field; its bytes, with what follows it; the fields of the format in their positions.

module te_payload_cva6 (
    input  logic clk,
    input  logic rst,
    input  logic                        req_valid,
    input  logic [2:0]                  req_kind,
    input  logic [te_pkg::IADDR-1:0]    req_address,
    input  logic [te_pkg::IADDR-1:0]    req_from,
    input  logic [30:0]                 req_map,
    input  logic [4:0]                  req_count,
    input  logic                        req_uncounted,
    input  logic                        req_updiscon,
    input  logic                        req_branch,
    input  logic [te_pkg::PRIV-1:0]     req_priv,
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

    localparam int W = te_pkg::PAYLOAD;
    // Time and context are there, but always 0.
    localparam int ZEROS = (te_pkg::HAS_TIME ? te_pkg::TIME : 0) + (te_pkg::HAS_CONTEXT ? te_pkg::CONTEXT : 0);
    localparam int START_AT = 5 + te_pkg::PRIV + ZEROS;
    localparam int ADDRESS_AT = START_AT + te_pkg::ECAUSE + 2;
    // An address with its sign, and the longest that follows it: a trap value, or flags.
    localparam int TAIL = 65 + (te_pkg::IADDR > 3 ? te_pkg::IADDR : 3);

    // Stage 1: the address field.
    logic                      a_valid, a_uncounted, a_updiscon, a_branch, a_thaddr, a_interrupt, a_ienable;
    logic [2:0]                a_kind;
    logic [te_pkg::IADDR-1:0]  difference, a_tval;
    logic [63:0]               a_field;
    logic [30:0]               a_map;
    logic [4:0]                a_count;
    logic [te_pkg::PRIV-1:0]   a_priv;
    logic [te_pkg::ECAUSE-1:0] a_cause;
    logic [1:0]                a_status;
    assign difference = req_address
        - (req_kind == te_pkg::PACKET_ADDRESS && !te_pkg::FULL_ADDRESS ? req_from : '0);
    always_ff @(posedge clk) begin
        a_valid <= req_valid && !rst;
        a_kind <= req_kind;
        a_field <= 64'(difference[te_pkg::IADDR-1:te_pkg::LSB]);
        a_map <= req_map;
        a_count <= req_count;
        a_uncounted <= req_uncounted;
        a_updiscon <= req_updiscon;
        a_branch <= req_branch;
        a_priv <= req_priv;
        a_thaddr <= req_thaddr;
        a_interrupt <= req_interrupt;
        a_cause <= req_cause;
        a_tval <= req_tval;
        a_ienable <= req_ienable;
        a_status <= req_status;
    end

    // Stage 2: the bytes of the address that are kept (less one), and what follows them: sign, then flags or trap value.
    logic [2:0]       more;
    logic [TAIL-1:0]  tail;
    logic [TAIL-65:0] above_field;
    logic [63:0]      kept;
    always_comb begin
        more = 3'd0;
        for (int i = 1; i < 8; i++)
            if (a_field[8*i-1+:9] != {9{a_field[63]}}) more = 3'(i);
    end
    always_comb begin
        case (a_kind)
            te_pkg::PACKET_TRAP: above_field = (TAIL - 64)'({a_tval, a_field[63]});
            te_pkg::PACKET_ADDRESS: above_field = (TAIL - 64)'({{2{a_updiscon}}, 1'b0, a_field[63]});
            default: above_field = (TAIL - 64)'(a_field[63]);
        endcase
    end
    // The bytes that are not kept make room for what follows.
    assign kept = a_field & ~(64'hFFFF_FFFF_FFFF_FF00 << {more, 3'd0});
    assign tail = TAIL'(kept) | (TAIL'(above_field) << ({4'd0, more, 3'd0} + 10'd8));

    logic            b_valid, b_uncounted, b_branch, b_thaddr, b_interrupt, b_ienable;
    logic [2:0]      b_kind, b_more;
    logic [TAIL-1:0] b_tail;
    logic [30:0]     b_map;
    logic [4:0]      b_count;
    logic [te_pkg::PRIV-1:0]   b_priv;
    logic [te_pkg::ECAUSE-1:0] b_cause;
    logic [1:0]      b_status;
    always_ff @(posedge clk) begin
        b_valid <= a_valid && !rst;
        b_kind <= a_kind;
        b_more <= more;
        b_tail <= tail;
        b_map <= a_map;
        b_count <= a_count;
        b_uncounted <= a_uncounted;
        b_branch <= a_branch;
        b_thaddr <= a_thaddr;
        b_interrupt <= a_interrupt;
        b_priv <= a_priv;
        b_cause <= a_cause;
        b_ienable <= a_ienable;
        b_status <= a_status;
    end

    // Stage 3: fields in their positions; `above` is the number of bits before the address, `follow` after its bytes.
    logic [W-1:0] fields;
    logic [8:0]   bits;
    logic [7:0]   above, follow;
    logic [4:0]   counted;
    always_comb begin
        counted = b_uncounted ? 5'd0 : b_count;
        above = 8'd2;
        follow = 8'd4;
        fields = W'({b_tail[67:0], 2'd2});
        case (b_kind)
            te_pkg::PACKET_SUPPORT: begin
                fields = W'(te_pkg::SUPPORT);
                fields[te_pkg::IENABLE_AT] = b_ienable;
                fields[te_pkg::STATUS_AT+:2] = b_status;
            end
            te_pkg::PACKET_START: begin
                fields = W'({b_tail[64:0], {ZEROS{1'b0}}, b_priv, b_branch, 4'b0011});
                above = 8'(START_AT);
                follow = 8'd1;
            end
            te_pkg::PACKET_TRAP: begin
                fields = W'({b_tail, b_thaddr, b_interrupt, b_cause, {ZEROS{1'b0}}, b_priv, b_branch, 4'b0111});
                above = 8'(ADDRESS_AT);
                follow = 8'(1 + te_pkg::IADDR);
            end
            te_pkg::PACKET_MAP: fields = W'({b_map, 5'd0, 2'd1});
            default: begin
                if (b_count[4]) begin
                    fields = W'({b_tail[67:0], b_map, counted, 2'd1});
                    above = 8'd38;
                end else if (b_count[3]) begin
                    fields = W'({b_tail[67:0], b_map[14:0], counted, 2'd1});
                    above = 8'd22;
                end else if (b_count[2]) begin
                    fields = W'({b_tail[67:0], b_map[6:0], counted, 2'd1});
                    above = 8'd14;
                end else if (b_count[1]) begin
                    fields = W'({b_tail[67:0], b_map[2:0], counted, 2'd1});
                    above = 8'd10;
                end else if (b_count[0]) begin
                    fields = W'({b_tail[67:0], b_map[0], counted, 2'd1});
                    above = 8'd8;
                end
            end
        endcase
        bits = 9'(above) + 9'(follow) + {3'd0, b_more, 3'd0} + 9'd15;
    end

    always_ff @(posedge clk) begin
        out_valid <= b_valid && !rst;
        out_payload <= fields;
        out_bytes <= b_kind == te_pkg::PACKET_SUPPORT ? 5'(te_pkg::SUPPORT_BYTES)
            : b_kind == te_pkg::PACKET_MAP ? 5'd5 : bits[7:3];
    end

endmodule
