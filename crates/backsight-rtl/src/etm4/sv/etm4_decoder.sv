// ETMv4/ETE instruction trace: the bytes of one source in, packets and records out, LANES bytes in every cycle.
//
//   LANES   bytes a cycle, 1 to 16
//
// Packets come out at the lane of their last byte, six cycles after it went in; records three cycles later.
// The configuration of the trace unit is compiled in: etm4_pkg, etm4_header and etm4_meaning are written for it.

module etm4_decoder #(
    parameter int LANES = @LANES@
) (
    input  logic                clk,
    input  logic                rst,       // synchronous
    input  logic                gap,       // bytes are missing before lane 0
    input  logic [LANES-1:0]    keep,      // lanes that hold a byte
    input  logic [8*LANES-1:0]  data,      // lane 0, the oldest byte, in bits 7:0
    // Packets, by the lanes of their last bytes.
    output logic [LANES-1:0]    byte_valid,     // `keep`, at the time of the packets
    output logic [LANES-1:0]    packet_valid,
    output logic                packet_gap,     // bytes were missing before lane 0
    output logic                packet_cut,     // a packet was cut off there
    output logic [6*LANES-1:0]  packet_kind,    // etm4_pkg::KIND_*
    output logic [3*LANES-1:0]  packet_why,     // etm4_pkg::WHY_*
    output logic [8*LANES-1:0]  packet_header,
    output logic [72*LANES-1:0] packet_raw,     // bytes of the first part of the payload
    output logic [9*LANES-1:0]  packet_wrote,   // those that it has
    output logic [32*LANES-1:0] packet_number,
    output logic [32*LANES-1:0] packet_count,
    output logic [8*LANES-1:0]  packet_info,    // context: the information byte
    output logic [32*LANES-1:0] packet_vmid,
    output logic [32*LANES-1:0] packet_cid,
    output logic [64*LANES-1:0] packet_address, // the newest address after the packet
    output logic [LANES-1:0]    packet_is,
    output logic [64*LANES-1:0] packet_timestamp,
    output logic [32*LANES-1:0] packet_threshold,
    // Records, by the same lanes.
    output logic                record_gap,
    output logic [3*LANES-1:0]  record_kind,    // etm4_pkg::RECORD_*
    output logic [etm4_pkg::CYCLE*LANES-1:0] record_cycle,
    output logic [64*LANES-1:0] record_value
);

    // What each byte would be as a header, as an information byte and so on.
    logic                gap_1;
    logic [LANES-1:0]    keep_1;
    logic [8*LANES-1:0]  data_1;
    logic [LANES*etm4_pkg::ENTRY-1:0] entry, entry_1;

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_header
            etm4_header header_of (.data(data[8*i+:8]), .entry(entry[etm4_pkg::ENTRY*i+:etm4_pkg::ENTRY]));
        end
    endgenerate

    always_ff @(posedge clk) begin
        gap_1 <= gap && !rst;
        keep_1 <= rst ? '0 : keep;
        data_1 <= data;
        entry_1 <= entry;
    end

    // Where packets begin and end.
    logic                s_gap, s_cut, p_gap, p_cut;
    logic [LANES-1:0]    s_keep, s_header, s_start, s_last, p_keep, p_header, p_last;
    logic [8*LANES-1:0]  s_data, p_data;
    logic [LANES*etm4_pkg::ENTRY-1:0] s_entry;
    logic [3*LANES-1:0]  s_why, p_why;

    etm4_stream_chain #(.LANES(LANES)) stream (
        .clk, .rst, .gap_next(gap), .gap(gap_1), .keep(keep_1), .data(data_1), .entry(entry_1),
        .gap_out(s_gap), .cut(s_cut), .keep_out(s_keep), .data_out(s_data), .entry_out(s_entry), .header(s_header),
        .start(s_start), .last(s_last), .why(s_why)
    );

    logic                f_gap, f_cut;
    logic [LANES-1:0]    f_keep, f_last;
    logic [3*LANES-1:0]  f_why;
    logic [8*LANES-1:0]  f_head, f_info;
    logic [72*LANES-1:0] f_raw;
    logic [9*LANES-1:0]  f_wrote;
    logic [32*LANES-1:0] f_number, f_count, f_vmid, f_cid;
    logic [LANES*etm4_pkg::MEANING-1:0] f_meaning, meaning;

    // Which register each byte goes into, and the registers.
    logic [9*LANES-1:0]  raw_we;
    logic [5*LANES-1:0]  number_we, count_we;
    logic [LANES-1:0]    info_we;
    logic [4*LANES-1:0]  vmid_we, cid_we;

    etm4_places #(.LANES(LANES)) places (
        .clk, .rst, .gap_next(gap_1), .gap(s_gap), .cut(s_cut), .keep(s_keep), .data(s_data), .entry(s_entry), .header(s_header),
        .start(s_start), .last(s_last), .why(s_why),
        .gap_out(p_gap), .cut_out(p_cut), .keep_out(p_keep), .data_out(p_data), .header_out(p_header),
        .last_out(p_last), .why_out(p_why), .raw_we, .number_we, .count_we, .info_we, .vmid_we, .cid_we
    );

    etm4_fields #(.LANES(LANES)) fields (
        .clk, .rst, .gap(p_gap), .cut(p_cut), .keep(p_keep), .data(p_data), .header(p_header), .last(p_last),
        .why(p_why), .raw_we, .number_we, .count_we, .info_we, .vmid_we, .cid_we,
        .gap_out(f_gap), .cut_out(f_cut), .keep_out(f_keep), .last_out(f_last), .why_out(f_why), .head(f_head),
        .raw(f_raw), .wrote(f_wrote), .number(f_number), .count(f_count), .info(f_info), .vmid(f_vmid), .cid(f_cid)
    );

    generate
        for (genvar i = 0; i < LANES; i++) begin : g_meaning
            etm4_meaning meaning_of (
                .header(f_head[8*i+:8]),
                .meaning(f_meaning[etm4_pkg::MEANING*i+:etm4_pkg::MEANING])
            );
            assign packet_kind[6*i+:6] = meaning[etm4_pkg::MEANING*i+etm4_pkg::M_KIND+:6];
        end
    endgenerate

    etm4_state_chain #(.LANES(LANES)) state (
        .clk, .rst,
        .gap(f_gap), .last(f_last), .why(f_why), .meaning(f_meaning), .raw(f_raw), .wrote(f_wrote), .number(f_number),
        .info(f_info),
        .address(packet_address), .is(packet_is), .timestamp(packet_timestamp), .threshold(packet_threshold)
    );

    // What goes around the state, which takes two cycles.
    delay #(.WIDTH(2 + 2 * LANES), .CYCLES(2)) flags (
        .clk, .in(rst ? '0 : {f_gap, f_cut, f_keep, f_last}), .out({packet_gap, packet_cut, byte_valid, packet_valid})
    );
    delay #(.WIDTH((etm4_pkg::MEANING + 3 + 8 + 72 + 9 + 32 + 32 + 8 + 32 + 32) * LANES), .CYCLES(2)) fields_of (
        .clk,
        .in({f_meaning, f_why, f_head, f_raw, f_wrote, f_number, f_count, f_info, f_vmid, f_cid}),
        .out({meaning, packet_why, packet_header, packet_raw, packet_wrote, packet_number, packet_count, packet_info,
              packet_vmid, packet_cid})
    );

    logic [16*LANES-1:0] first_two;
    generate
        for (genvar i = 0; i < LANES; i++) begin : g_first_two
            assign first_two[16*i+:16] = packet_raw[72*i+:16];
        end
    endgenerate

    etm4_record #(.LANES(LANES)) record (
        .clk, .rst,
        .gap(packet_gap), .last(packet_valid), .why(packet_why), .head(packet_header), .meaning(meaning),
        .raw(first_two), .count(packet_count), .address(packet_address), .threshold(packet_threshold),
        .gap_out(record_gap), .kind(record_kind), .cycle(record_cycle), .value(record_value)
    );

endmodule
