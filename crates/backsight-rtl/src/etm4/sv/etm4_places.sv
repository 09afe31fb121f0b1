// What each byte of an ETMv4/ETE packet is: the register that it goes into.
//
// Follows the parts of a payload from their first bytes, which the stream unit marks, and gives write enables for
// etm4_fields. Only the order of the parts matters here, and that comes with the header (etm4_header).
//
//   LANES   bytes a cycle
//
// Latency: one cycle.

module etm4_places #(
    parameter int LANES = 4
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               gap_next,   // `gap` of the word that comes next
    input  logic               gap,
    input  logic               cut,
    input  logic [LANES-1:0]   keep,
    input  logic [8*LANES-1:0] data,
    input  logic [LANES*etm4_pkg::ENTRY-1:0] entry,
    input  logic [LANES-1:0]   header,
    input  logic [LANES-1:0]   start,
    input  logic [LANES-1:0]   last,
    input  logic [3*LANES-1:0] why,
    output logic               gap_out,
    output logic               cut_out,
    output logic [LANES-1:0]   keep_out,
    output logic [8*LANES-1:0] data_out,
    output logic [LANES-1:0]   header_out,
    output logic [LANES-1:0]   last_out,
    output logic [3*LANES-1:0] why_out,
    output logic [9*LANES-1:0] raw_we,     // bytes of fixed fields, timestamps, short addresses, exceptions
    output logic [5*LANES-1:0] number_we,  // bytes of a continued number; in a Trace Info those of CYCT
    output logic [5*LANES-1:0] count_we,   // bytes of a number of cycles, or of a second conditional key
    output logic [LANES-1:0]   info_we,    // the information byte of a context
    output logic [4*LANES-1:0] vmid_we,
    output logic [4*LANES-1:0] cid_we
);

    typedef struct packed {
        logic [3:0] place;
        logic       fresh;        // the next part is the first
        logic       then_info;
        logic       then_count;
        logic       then_result;
        logic [4:0] sections;     // sections of a Trace Info that are still to come
        logic       threshold;    // the section is CYCT
        logic       vmid;         // the context has a VMID
        logic [8:0] index;        // position in the part, one bit
    } state_t;

    localparam logic [3:0] VMID_MASK = 4'((1 << etm4_pkg::VMID_BYTES) - 1);

    state_t state, state_next, s;
    logic [etm4_pkg::ENTRY-1:0] e;
    logic [7:0] b;
    logic [9*LANES-1:0] raw_next;
    logic [5*LANES-1:0] number_next, count_next;
    logic [LANES-1:0]   info_next;
    logic [4*LANES-1:0] vmid_next, cid_next;

    always_comb begin
        s = state;
        e = '0;
        b = '0;
        raw_next = '0;
        number_next = '0;
        count_next = '0;
        info_next = '0;
        vmid_next = '0;
        cid_next = '0;
        for (int i = 0; i < LANES; i++) begin
            b = data[8*i+:8];
            e = entry[etm4_pkg::ENTRY*i+:etm4_pkg::ENTRY];
            if (header[i]) begin
                s.place = e[etm4_pkg::E_PLACE+:4];
                s.fresh = 1'b1;
                s.then_info = e[etm4_pkg::E_THEN_INFO];
                s.then_count = e[etm4_pkg::E_THEN_COUNT];
                s.then_result = e[etm4_pkg::E_THEN_RESULT];
            end else if (start[i]) begin
                if (!s.fresh) begin
                    if (s.place == etm4_pkg::PLACE_INFO) s.place = etm4_pkg::PLACE_IDS;
                    else if (s.then_info) s.place = etm4_pkg::PLACE_INFO;
                    else if (s.then_count) s.place = etm4_pkg::PLACE_COUNT;
                    else if (s.then_result) s.place = etm4_pkg::PLACE_RESULT2;
                    else if (s.place == etm4_pkg::PLACE_CONTROL) s.place = etm4_pkg::PLACE_SECTION;
                    else if (s.place != etm4_pkg::PLACE_SECTION) s.place = etm4_pkg::PLACE_NUMBER;
                end
                s.fresh = 1'b0;
                s.index = 9'b1;
                if (s.place == etm4_pkg::PLACE_CONTROL) s.sections = b[4:0];
                if (s.place == etm4_pkg::PLACE_SECTION) begin
                    s.threshold = s.sections[3:0] == 4'b1000;
                    s.sections = s.sections & (s.sections - 5'b1);
                end
                if (s.place == etm4_pkg::PLACE_INFO) s.vmid = b[6];
            end else if (keep[i]) begin
                s.index = s.index << 1;
            end
            if (keep[i] && !header[i]) begin
                case (s.place)
                    etm4_pkg::PLACE_RAW: raw_next[9*i+:9] = s.index;
                    etm4_pkg::PLACE_NUMBER: number_next[5*i+:5] = s.index[4:0];
                    etm4_pkg::PLACE_SECTION: number_next[5*i+:5] = s.threshold ? s.index[4:0] : 5'b0;
                    etm4_pkg::PLACE_COUNT: count_next[5*i+:5] = {2'b0, s.index[2:0]};
                    etm4_pkg::PLACE_RESULT: begin
                        raw_next[9*i] = s.index[0];
                        number_next[5*i+:5] = s.index[5:1];
                    end
                    etm4_pkg::PLACE_RESULT2: begin
                        raw_next[9*i+1] = s.index[0];
                        count_next[5*i+:5] = s.index[5:1];
                    end
                    etm4_pkg::PLACE_INFO: info_next[i] = 1'b1;
                    etm4_pkg::PLACE_IDS: begin
                        vmid_next[4*i+:4] = s.vmid ? s.index[3:0] & VMID_MASK : 4'b0;
                        cid_next[4*i+:4] = s.vmid ? 4'(s.index >> etm4_pkg::VMID_BYTES) : s.index[3:0];
                    end
                    default: ;
                endcase
            end
        end
        state_next = s;
    end

    always_ff @(posedge clk) begin
        state <= rst || gap_next ? '0 : state_next;
        gap_out <= gap && !rst;
        cut_out <= cut && !rst;
        keep_out <= rst ? '0 : keep;
        data_out <= data;
        header_out <= rst ? '0 : header;
        last_out <= rst ? '0 : last;
        why_out <= why;
        raw_we <= rst ? '0 : raw_next;
        number_we <= rst ? '0 : number_next;
        count_we <= rst ? '0 : count_next;
        info_we <= rst ? '0 : info_next;
        vmid_we <= rst ? '0 : vmid_next;
        cid_we <= rst ? '0 : cid_next;
    end

endmodule
