// The fields of ETMv4/ETE packets, put together from their bytes.
//
// At the lane where a packet ends, the outputs of that lane hold all of it. What a packet does not have is 0, except
// the context, whose information byte says which of its identifiers are there.
//
//   LANES   bytes a cycle
//
// Latency: one cycle.

module etm4_fields #(
    parameter int LANES = 4
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                gap,
    input  logic                cut,
    input  logic [LANES-1:0]    keep,
    input  logic [8*LANES-1:0]  data,
    input  logic [LANES-1:0]    header,
    input  logic [LANES-1:0]    last,
    input  logic [3*LANES-1:0]  why,
    input  logic [9*LANES-1:0]  raw_we,
    input  logic [5*LANES-1:0]  number_we,
    input  logic [5*LANES-1:0]  count_we,
    input  logic [LANES-1:0]    info_we,
    input  logic [4*LANES-1:0]  vmid_we,
    input  logic [4*LANES-1:0]  cid_we,
    output logic                gap_out,
    output logic                cut_out,
    output logic [LANES-1:0]    keep_out,
    output logic [LANES-1:0]    last_out,
    output logic [3*LANES-1:0]  why_out,
    output logic [8*LANES-1:0]  head,     // the header byte
    output logic [72*LANES-1:0] raw,      // bytes as they came
    output logic [9*LANES-1:0]  wrote,    // those of `raw` that the packet has
    output logic [32*LANES-1:0] number,
    output logic [32*LANES-1:0] count,
    output logic [8*LANES-1:0]  info,
    output logic [32*LANES-1:0] vmid,
    output logic [32*LANES-1:0] cid
);

    localparam int LAST = LANES - 1;

    logic        forget;
    logic [7:0]  head_s, info_s, b;
    logic [71:0] raw_s;
    logic [8:0]  wrote_s;
    logic [34:0] number_s, count_s;
    logic [31:0] vmid_s, cid_s;
    assign forget = gap || rst;

    logic [8*LANES-1:0]  head_next, info_next;
    logic [72*LANES-1:0] raw_next;
    logic [9*LANES-1:0]  wrote_next;
    logic [32*LANES-1:0] number_next, count_next, vmid_next, cid_next;

    always_comb begin
        // The last lane holds what the words before left.
        head_s = head[8*LAST+:8];
        raw_s = raw[72*LAST+:72];
        wrote_s = wrote[9*LAST+:9];
        number_s = {3'b0, number[32*LAST+:32]};
        count_s = {3'b0, count[32*LAST+:32]};
        info_s = info[8*LAST+:8];
        vmid_s = vmid[32*LAST+:32];
        cid_s = cid[32*LAST+:32];
        b = '0;
        for (int i = 0; i < LANES; i++) begin
            b = data[8*i+:8];
            for (int k = 0; k < 9; k++) begin
                if (raw_we[9*i+k]) begin
                    raw_s[8*k+:8] = b;
                    wrote_s[k] = 1'b1;
                end
            end
            for (int k = 0; k < 5; k++) begin
                if (number_we[5*i+k]) number_s[7*k+:7] = b[6:0];
                if (count_we[5*i+k]) count_s[7*k+:7] = b[6:0];
            end
            // A header is never written elsewhere, so that clearing comes last: the reset of a flip-flop does it.
            if (header[i]) head_s = b;
            if (header[i] || (i == 0 && forget)) begin
                raw_s = '0;
                wrote_s = '0;
                number_s = '0;
                count_s = '0;
            end
            // After a gap an Async has no header of its own: what is 0 here is its header and its first byte.
            if (i == 0 && forget) head_s = '0;
            if (info_we[i]) info_s = b;
            for (int k = 0; k < 4; k++) begin
                if (vmid_we[4*i+k]) vmid_s[8*k+:8] = b;
                if (cid_we[4*i+k]) cid_s[8*k+:8] = b;
            end
            if (i == 0 && rst) begin
                info_s = '0;
                vmid_s = '0;
                cid_s = '0;
            end
            head_next[8*i+:8] = head_s;
            raw_next[72*i+:72] = raw_s;
            wrote_next[9*i+:9] = wrote_s;
            number_next[32*i+:32] = number_s[31:0];
            count_next[32*i+:32] = count_s[31:0];
            info_next[8*i+:8] = info_s;
            vmid_next[32*i+:32] = vmid_s;
            cid_next[32*i+:32] = cid_s;
        end
    end

    always_ff @(posedge clk) begin
        gap_out <= gap && !rst;
        cut_out <= cut && !rst;
        keep_out <= rst ? '0 : keep;
        last_out <= rst ? '0 : last;
        why_out <= why;
        head <= head_next;
        raw <= raw_next;
        wrote <= wrote_next;
        number <= number_next;
        count <= count_next;
        info <= info_next;
        vmid <= vmid_next;
        cid <= cid_next;
    end

endmodule
