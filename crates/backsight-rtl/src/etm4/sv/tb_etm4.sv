// Testbench: reads words from the file +words=FILE, prints packets and records.
//
// A line of the file is a word: GAP KEEP DATA, hexadecimal. With the macro FRAMES it is a frame instead: LOST ID FRAME, and
// coresight_etm4 is tested, not etm4_decoder. A line of the output is
//   P POSITION KIND WHY HEADER RAW WROTE NUMBER COUNT INFO VMID CID ADDRESS IS TIMESTAMP THRESHOLD
//   R KIND CYCLE VALUE
//   X CUT, where bytes are missing
// POSITION counts the bytes up to the end of the packet.
// A Trace Info is printed at its last byte, where its threshold is known.                           //@prefix

`timescale 1ns / 1ps

module tb_etm4 #(
    parameter int LANES = @LANES@
);

    logic clk = 1'b0;
    logic rst = 1'b1;
    logic [LANES-1:0]    byte_valid, packet_valid, packet_is;
    logic                packet_gap, packet_cut, record_gap;
    logic [6*LANES-1:0]  packet_kind;
    logic [3*LANES-1:0]  packet_why, record_kind;
    logic [8*LANES-1:0]  packet_header, packet_info;
    logic [72*LANES-1:0] packet_raw;
    logic [9*LANES-1:0]  packet_wrote;
    logic [32*LANES-1:0] packet_number, packet_count, packet_vmid, packet_cid, packet_threshold;
    logic [64*LANES-1:0] packet_address, packet_timestamp, record_value;
    logic [etm4_pkg::CYCLE*LANES-1:0] record_cycle;
    logic [5*LANES-1:0]  packet_payload;  //@prefix
    logic                flush = 1'b0;    //@prefix

`ifdef FRAMES
    logic [6:0]   id = '0;
    logic         frame_valid = 1'b0;
    logic         frame_ready;
    logic         frame_lost = 1'b0;
    logic [127:0] frame = '0;
    coresight_etm4 #(.LANES(LANES)) dut (.*);
`else
    logic gap = 1'b0;
    logic [LANES-1:0]   keep = '0;
    logic [8*LANES-1:0] data = '0;
    etm4_decoder #(.LANES(LANES)) dut (.*);
`endif

    always #5 clk = !clk;

    string   words;
    integer  file, read, position, idle;
    integer  info_end = -1;  //@prefix
    logic         gap_read;
    logic [15:0]  keep_read;
    logic [127:0] data_read;

    initial begin
        position = 0;
        idle = 0;
        if (!$value$plusargs("words=%s", words)) begin
            $display("usage: +words=FILE");
            $finish;
        end
        file = $fopen(words, "r");
        if (file == 0) begin
            $display("%s cannot be read", words);
            $finish;
        end
        repeat (16) @(negedge clk);
        rst = 1'b0;
        // When the words are over, as many empty ones as are in flight.
        while (idle < 64) begin  //@chain
        while (idle < 128) begin  //@prefix
            read = $fscanf(file, "%h %h %h\n", gap_read, keep_read, data_read);
            if (read != 3) idle = idle + 1;
            flush = idle > 24;  //@prefix
`ifdef FRAMES
            frame_valid = read == 3;
            frame_lost = gap_read;
            if (read == 3) id = keep_read[6:0];
            frame = data_read;
            @(negedge clk);
            while (frame_valid && !taken) @(negedge clk);
`else
            gap = read == 3 && gap_read;
            keep = read == 3 ? keep_read[LANES-1:0] : '0;
            data = data_read[8*LANES-1:0];
            @(negedge clk);
`endif
        end
        $fclose(file);
        $finish;
    end

`ifdef FRAMES
    // Was the frame taken at the last rising edge?
    logic taken;
    always @(posedge clk) taken <= frame_valid && frame_ready;
`endif

    always @(negedge clk) begin
        if (packet_gap) $display("X %0d", packet_cut);
        if (record_gap) $display("G");
        for (int i = 0; i < LANES; i++) begin
            if (byte_valid[i]) position = position + 1;
            if (packet_valid[i])  //@chain
                $display("P %0d %0d %0d %h %h %h %h %h %h %h %h %h %0d %h %h", position, packet_kind[6*i+:6],  //@chain
                    packet_why[3*i+:3], packet_header[8*i+:8], packet_raw[72*i+:72], packet_wrote[9*i+:9],  //@chain
                    packet_number[32*i+:32], packet_count[32*i+:32], packet_info[8*i+:8], packet_vmid[32*i+:32],  //@chain
                    packet_cid[32*i+:32], packet_address[64*i+:64], packet_is[i], packet_timestamp[64*i+:64],  //@chain
                    packet_threshold[32*i+:32]);  //@chain
            if (packet_valid[i] && packet_kind[6*i+:6] == etm4_pkg::KIND_TRACE_INFO  //@prefix
                && packet_why[3*i+:3] == etm4_pkg::WHY_NONE) begin  //@prefix
                info_end = position + {27'b0, packet_payload[5*i+:5]};  //@prefix
            end else if (packet_valid[i])  //@prefix
                $display("P %0d %0d %0d %h %h %h %h %h %h %h %h %h %0d %h %h", position + {27'b0, packet_payload[5*i+:5]},  //@prefix
                    packet_kind[6*i+:6], packet_why[3*i+:3], packet_header[8*i+:8], packet_raw[72*i+:72],  //@prefix
                    packet_wrote[9*i+:9], packet_number[32*i+:32], packet_count[32*i+:32], packet_info[8*i+:8],  //@prefix
                    packet_vmid[32*i+:32], packet_cid[32*i+:32], packet_address[64*i+:64], packet_is[i],  //@prefix
                    packet_timestamp[64*i+:64], packet_threshold[32*i+:32]);  //@prefix
            if (byte_valid[i] && position == info_end)  //@prefix
                $display("P %0d %0d 0 01 0 0 %h 0 0 0 0 0 0 0 %h", position, etm4_pkg::KIND_TRACE_INFO,  //@prefix
                    packet_threshold[32*i+:32], packet_threshold[32*i+:32]);  //@prefix
        end
        for (int i = 0; i < LANES; i++) begin
            if (record_kind[3*i+:3] != 3'b0)
                $display("R %0d %0d %h", record_kind[3*i+:3], record_cycle[etm4_pkg::CYCLE*i+:etm4_pkg::CYCLE],
                    record_value[64*i+:64]);
        end
    end

endmodule
