// ETMv4/ETE packets at the lanes of their headers: what they are, and their bytes.
//
// The payload of a packet is in the lanes after its header, so that the bits of addresses, timestamps and exceptions are wires.
// Only fields that come after others are picked, by the length of the first part.
//
//   LANES   bytes of a word, 8 or 16
//
// Packets come out when the words are there that hold their bytes.

module etm4_packets_prefix #(
    parameter int LANES = 8
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                step,      // a word is at the inputs
    input  logic [LANES-1:0]    header,
    input  logic [LANES-1:0]    async,
    input  logic [LANES-1:0]    complete,  // the packet is not cut off
    input  logic [8*LANES-1:0]  data,
    input  logic [5*LANES-1:0]  length,
    input  logic [4*LANES-1:0]  first,
    input  logic [3*LANES-1:0]  why,
    output logic                next,      // the outputs are those of a word in the next cycle
    output logic [LANES-1:0]    valid,     // a packet begins here
    output logic [8*(LANES+9)-1:0] bytes,  // the word itself, and nine bytes after it
    output logic [8*LANES-1:0]  head,      // the header byte
    output logic [5*LANES-1:0]  payload,   // bytes of the payload
    output logic [3*LANES-1:0]  bad,       // etm4_pkg::WHY_*
    output logic [LANES*etm4_pkg::MEANING-1:0] meaning,
    output logic [72*LANES-1:0] after,     // the nine bytes after the header, whatever they are
    output logic [LANES-1:0]    sf,        // bit 4 of the information byte of a context
    output logic [21*LANES-1:0] cycles,    // what a Cycle Count counts: seven bits a byte, also of bytes after the last
    output logic [2*LANES-1:0]  cycles_end, // bit k: bits 7k+13:7k+7 are not part of it
    // The same as etm4_decoder gives them.
    output logic [72*LANES-1:0] raw,
    output logic [9*LANES-1:0]  wrote,
    output logic [32*LANES-1:0] number,
    output logic [32*LANES-1:0] count,
    output logic [8*LANES-1:0]  info,
    output logic [32*LANES-1:0] vmid,
    output logic [32*LANES-1:0] cid
);

    localparam int AHEAD = (17 + LANES - 1) / LANES;  // words in which the bytes after a lane are
    localparam int MEANING = etm4_pkg::MEANING;
    localparam logic [31:0] VMID_MASK = 32'((64'd1 << (8 * etm4_pkg::VMID_BYTES)) - 64'd1);
    localparam logic [31:0] CID_MASK = 32'((64'd1 << (8 * etm4_pkg::CID_BYTES)) - 64'd1);

    logic                         filled;
    logic [8*LANES*(AHEAD+1)-1:0] window_s, window;
    word_window #(.WIDTH(8 * LANES), .WORDS(AHEAD + 1)) window_of_bytes (
        .clk, .rst, .step, .in(data), .filled, .window(window_s)
    );

    logic [LANES-1:0]   header_1, async_1, complete_1;
    logic [5*LANES-1:0] length_1;
    logic [4*LANES-1:0] first_1;
    logic [3*LANES-1:0] why_1;
    logic [15*LANES-1:0] around;
    word_delay #(.WIDTH(15 * LANES), .WORDS(AHEAD)) around_window (
        .clk, .step, .in({header, async, complete, length, first, why}), .out(around)
    );

    // What a byte is as a header, as long as it is not known whether it is one.
    logic [MEANING*LANES-1:0] meaning_s, meaning_1;
    logic [MEANING-1:0]       meaning_of_async;
    logic [LANES*etm4_pkg::ENTRY-1:0] entry_s, entry_1;
    always_ff @(posedge clk) begin
        next <= filled && !rst;
        window <= window_s;
        {header_1, async_1, complete_1, length_1, first_1, why_1} <= around;
        meaning_1 <= meaning_s;
        entry_1 <= entry_s;
    end
    etm4_meaning meaning_of_zero (.header(8'h00), .meaning(meaning_of_async));

    // A continued number of at most five bytes: bits of the bytes after the last are 0.
    function automatic [31:0] continued(input [39:0] b);
        logic [34:0] n;
        logic        more;
        n = '0;
        more = 1'b1;
        for (int k = 0; k < 5; k++) begin
            n[7*k+:7] = more ? b[8*k+:7] : 7'b0;
            more = more && b[8*k+7];
        end
        continued = n[31:0];
    endfunction

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_lane
            logic [8*18-1:0]            w;   // the header and the bytes after it
            logic [7:0]                 h;
            logic [MEANING-1:0]         m;
            logic [etm4_pkg::ENTRY-1:0] e;
            logic [3:0]                 place, at;
            logic [39:0]                n_bytes, c_bytes;
            logic [71:0]                context_bytes, raw_s;
            logic [8:0]                 wrote_s;
            logic [7:0]                 second_result;
            logic [23:0]                y_bytes;
            logic [6:0]                 y_first;

            assign w = window[8*i+:8*18];
            assign h = async_1[i] ? 8'h00 : w[7:0];
            assign at = first_1[4*i+:4];
            assign place = e[etm4_pkg::E_PLACE+:4];
            etm4_meaning meaning_of (.header(window_s[8*i+:8]), .meaning(meaning_s[MEANING*i+:MEANING]));
            etm4_header header_of (.data(window_s[8*i+:8]), .entry(entry_s[etm4_pkg::ENTRY*i+:etm4_pkg::ENTRY]));
            assign m = async_1[i] ? meaning_of_async : meaning_1[MEANING*i+:MEANING];
            assign e = entry_1[etm4_pkg::ENTRY*i+:etm4_pkg::ENTRY];

            // The second part of the payload, and the number that is the first or second.
            always_comb begin
                c_bytes = place == etm4_pkg::PLACE_COUNT ? w[8+:40] : 40'b0;
                second_result = 8'h00;
                for (int k = 1; k < 10; k++) begin
                    if (e[etm4_pkg::E_THEN_COUNT] && at == 4'(k)) c_bytes = {16'b0, w[8*(k+1)+:24]};
                    if (k < 7 && e[etm4_pkg::E_THEN_RESULT] && at == 4'(k)) begin
                        c_bytes = w[8*(k+2)+:40] & {40{w[8*(k+1)+7]}};
                        second_result = w[8*(k+1)+:8];
                    end
                end
                n_bytes = 40'b0;
                if (place == etm4_pkg::PLACE_NUMBER) n_bytes = w[8+:40];
                else if (place == etm4_pkg::PLACE_RESULT) n_bytes = w[16+:40] & {40{w[15]}};
                else if (e[etm4_pkg::E_THEN_NUMBER])
                    n_bytes = at == 4'd1 ? w[16+:40] : at == 4'd2 ? w[24+:40] : w[40+:40];
                if (e[etm4_pkg::E_THEN_INFO]) context_bytes = at[2] ? w[40+:72] : w[72+:72];
                else context_bytes = w[8+:72];
                y_bytes = w[8+:24];
                if (etm4_pkg::CYCLE_COUNT_HAS_COMMIT)
                    for (int k = 1; k < 6; k++) if (at == 4'(k)) y_bytes = w[8*(k+1)+:24];
                if (m[etm4_pkg::M_CYCLES1]) y_first = y_bytes[6:0];
                else y_first = m[etm4_pkg::M_CYCLES2] ? {3'b0, w[11:8]} : {5'b0, w[1:0]};
            end

            always_comb begin
                raw_s = '0;
                wrote_s = '0;
                if (place == etm4_pkg::PLACE_RESULT) begin
                    raw_s[15:0] = {second_result, w[15:8]};
                    wrote_s = {7'b0, e[etm4_pkg::E_THEN_RESULT], 1'b1};
                end else if (place == etm4_pkg::PLACE_RAW && !async_1[i]) begin
                    for (int k = 0; k < 9; k++) begin
                        if (at > 4'(k)) begin
                            raw_s[8*k+:8] = w[8*(k+1)+:8];
                            wrote_s[k] = 1'b1;
                        end
                    end
                end
            end

            always_ff @(posedge clk) begin
                valid[i] <= (header_1[i] && complete_1[i]) || async_1[i];
                head[8*i+:8] <= h;
                payload[5*i+:5] <= async_1[i] ? 5'd0 : length_1[5*i+:5];
                bad[3*i+:3] <= async_1[i] ? etm4_pkg::WHY_NONE : why_1[3*i+:3];
                meaning[MEANING*i+:MEANING] <= m;
                after[72*i+:72] <= {w[79:16], async_1[i] ? 8'h00 : w[15:8]};
                sf[i] <= !m[etm4_pkg::M_LONG] ? w[8+4] : !m[etm4_pkg::M_LONG64] ? w[40+4] : w[72+4];
                cycles[21*i+:21] <= {y_bytes[22:16], y_bytes[14:8], y_first};
                cycles_end[2*i+:2] <= m[etm4_pkg::M_CYCLES1] ? {!(y_bytes[7] && y_bytes[15]), !y_bytes[7]} : 2'b11;
                raw[72*i+:72] <= raw_s;
                wrote[9*i+:9] <= wrote_s;
                number[32*i+:32] <= continued(n_bytes);
                count[32*i+:32] <= continued(c_bytes);
                info[8*i+:8] <= context_bytes[7:0];
                vmid[32*i+:32] <= context_bytes[8+:32] & VMID_MASK;
                cid[32*i+:32] <= (context_bytes[6] ? context_bytes[8+8*etm4_pkg::VMID_BYTES+:32]
                                                   : context_bytes[8+:32]) & CID_MASK;
            end
        end
    endgenerate
    always_ff @(posedge clk) bytes <= window[8*(LANES+9)-1:0];

endmodule
