// CoreSight frames to the packets and records of one ETMv4/ETE: frame_demux, lane_serialiser, etm4_decoder.
//
//   LANES   bytes a cycle, 1 to 16  //@chain
//   LANES   bytes a cycle, 8 or 16  //@prefix
//
// A frame is taken every ceil(16 / LANES) cycles.

module coresight_etm4 #(
    parameter int LANES = @LANES@
) (
    input  logic                clk,
    input  logic                rst,          // synchronous
    input  logic [6:0]          id,           // trace ID of the source; constant while there are frames
    input  logic                frame_valid,
    output logic                frame_ready,
    input  logic [127:0]        frame,        // byte 0 in bits 7:0
    input  logic                frame_lost,   // frames are missing before this one
    input  logic                flush,        // the trace is over: high for 80 cycles, 24 after the last frame //@prefix
    // Packets, by the lanes of their last bytes.  //@chain
    // Packets, by the lanes of their headers.  //@prefix
    output logic [LANES-1:0]    byte_valid,     // `keep`, at the time of the packets
    output logic [LANES-1:0]    packet_valid,
    output logic                packet_gap,     // bytes were missing before lane 0
    output logic                packet_cut,     // a packet was cut off there
    output logic [5*LANES-1:0]  packet_payload, // bytes after the header  //@prefix
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

    logic         d_valid, d_ready, gap;
    logic [127:0] d_data;
    logic [15:0]  d_keep, d_gap;
    logic [LANES-1:0]   keep;
    logic [8*LANES-1:0] data;

    frame_demux demux (
        .clk, .rst, .id, .in_valid(frame_valid), .in_ready(frame_ready), .in_frame(frame), .in_lost(frame_lost),
        .valid(d_valid), .ready(d_ready), .data(d_data), .keep(d_keep), .gap(d_gap)
    );

    lane_serialiser #(.LANES(LANES)) serialiser (
        .clk, .rst, .in_valid(d_valid), .in_ready(d_ready), .in_data(d_data), .in_keep(d_keep), .in_gap(d_gap),
        .gap, .keep, .data
    );

    etm4_decoder #(.LANES(LANES)) decoder (.*);

endmodule
