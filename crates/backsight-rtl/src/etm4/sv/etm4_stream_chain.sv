// Packet boundaries of an ETMv4/ETE stream, LANES bytes a cycle: the chain.
//
// The state of the stream goes through LANES steps in one cycle, one for each byte, as in an unrolled loop. All that
// depends on a byte alone is looked up a cycle earlier (etm4_header). After reset, and after a gap, bytes are skipped
// up to the end of the first Async: eleven zero bytes and 0x80.
//
//   LANES   bytes a cycle, 1 to 16
//
// Latency: one cycle. There is no back-pressure: a word every cycle, whatever is in it.

module etm4_stream_chain #(
    parameter int LANES = 4
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               gap_next,  // `gap` of the word that comes next
    input  logic               gap,     // bytes are missing before lane 0: forget the packet and search for an Async
    input  logic [LANES-1:0]   keep,    // lanes that hold a byte; the others are passed over
    input  logic [8*LANES-1:0] data,    // lane 0, the oldest byte, in bits 7:0
    input  logic [LANES*etm4_pkg::ENTRY-1:0] entry,  // what etm4_header says of each byte
    output logic               gap_out,
    output logic               cut,     // the gap cut off a packet
    output logic [LANES-1:0]   keep_out,
    output logic [8*LANES-1:0] data_out,
    output logic [LANES*etm4_pkg::ENTRY-1:0] entry_out,
    output logic [LANES-1:0]   header,  // the byte is a header
    output logic [LANES-1:0]   start,   // the byte is the first of a part of the payload
    output logic [LANES-1:0]   last,    // the byte is the last of a packet
    output logic [3*LANES-1:0] why      // the packet that ends here is bad: etm4_pkg::WHY_*
);

    // The state between two bytes.
    typedef struct packed {
        logic        hunting;  // searching for an Async; `left` then counts the zeros that are still needed
        logic        payload;  // inside a payload, else before a header
        logic        start;    // at the first byte of a part
        logic [11:0] left;     // bytes that the part has left, at most: bit 0 for one
        logic        stop;     // the part ends with bit 7 = 0 …
        logic        limit;    // … and is too long if it does not
        logic        extension;
        logic        info;     // at the information byte of a context
        logic        exception;// at the first byte of an exception
        logic        control;  // at the first byte of PLCTL
        logic        then_info;
        logic        then_count;
        logic        then_result;
        logic [2:0]  numbers;  // continued numbers that follow
    } state_t;

    localparam logic [26:0] HUNTING = {1'b1, 2'b0, 12'h800, 12'b0};
    localparam logic [26:0] HEADER  = 27'b0;

    state_t state, state_next, s, n;
    logic [etm4_pkg::ENTRY-1:0] e;
    logic [7:0]  b;
    logic        ends, bad;
    logic [2:0]  reason;
    logic [11:0] ids;

    logic               left_open;  // the gap comes within a packet
    logic [LANES-1:0]   header_next, start_next, last_next;
    logic [3*LANES-1:0] why_next;

    always_comb begin
        n = HEADER;
        e = '0;
        b = '0;
        ids = '0;
        ends = 1'b0;
        bad = 1'b0;
        reason = etm4_pkg::WHY_NONE;
        s = state;
        header_next = '0;
        start_next = '0;
        last_next = '0;
        why_next = '0;
        for (int i = 0; i < LANES; i++) begin
            b = data[8*i+:8];
            e = entry[etm4_pkg::ENTRY*i+:etm4_pkg::ENTRY];
            n = s;
            reason = etm4_pkg::WHY_NONE;
            ends = 1'b0;
            bad = 1'b0;
            ids = e[etm4_pkg::E_IDS+:12];
            if (s.hunting) begin
                if (b == 8'h00) n.left = s.left[0] ? s.left : s.left >> 1;
                else if (b == 8'h80 && s.left[0]) n = HEADER;
                else n = HUNTING;
            end else if (!s.payload) begin
                reason = e[etm4_pkg::E_WHY+:3];
                n = {1'b0, e[etm4_pkg::E_PAYLOAD], e[etm4_pkg::E_PAYLOAD], e[etm4_pkg::E_LEFT+:12],
                     e[etm4_pkg::E_STOP], e[etm4_pkg::E_LIMIT], e[etm4_pkg::E_EXTENSION], e[etm4_pkg::E_INFO],
                     e[etm4_pkg::E_EXCEPTION], e[etm4_pkg::E_CONTROL], e[etm4_pkg::E_THEN_INFO],
                     e[etm4_pkg::E_THEN_COUNT], e[etm4_pkg::E_THEN_RESULT], 2'b0, e[etm4_pkg::E_THEN_NUMBER]};
            end else begin
                n.start = 1'b0;
                n.left = s.left >> 1;
                n.control = 1'b0;
                n.exception = 1'b0;
                n.info = 1'b0;
                if (s.control) n.numbers = e[etm4_pkg::E_SECTIONS+:3];
                if (s.info) begin
                    n.left = ids;
                    n.start = 1'b1;
                    ends = ids == 12'b0;
                end else if (s.exception) begin
                    ends = !e[etm4_pkg::E_TWO];
                end else begin
                    ends = s.left[0] || (s.stop && !b[7]) || (s.extension && b != 8'h00);
                    bad = s.limit && s.left[0] && b[7];
                end
                if (bad) reason = etm4_pkg::WHY_FIELD_TOO_LONG;
                if (s.extension && ends) begin
                    if (s.left[0]) reason = b == 8'h80 ? etm4_pkg::WHY_NONE : etm4_pkg::WHY_ASYNC_LENGTH;
                    else if (!s.start) reason = etm4_pkg::WHY_ASYNC_LENGTH;
                    else reason = b == 8'h03 || b == 8'h05 ? etm4_pkg::WHY_NONE : etm4_pkg::WHY_EXTENSION;
                end
                if (ends) begin
                    n.start = 1'b1;
                    n.stop = 1'b1;
                    n.limit = 1'b1;
                    n.then_info = 1'b0;
                    n.then_count = 1'b0;
                    n.then_result = 1'b0;
                    if (bad) n = HEADER;
                    else if (s.then_info) begin
                        n.info = 1'b1;
                        n.stop = 1'b0;
                        n.limit = 1'b0;
                    end else if (s.then_count) n.left = etm4_pkg::LEFT_COUNT;
                    else if (s.then_result) n.left = etm4_pkg::LEFT_RESULT;
                    else if (n.numbers != 3'b0) begin
                        n.left = etm4_pkg::LEFT_NUMBER;
                        n.numbers = n.numbers - 3'b1;
                    end else n = HEADER;
                end
            end
            if (keep[i]) begin
                header_next[i] = !s.hunting && !s.payload;
                start_next[i] = s.payload && s.start;
                last_next[i] = !n.hunting && !n.payload;
                why_next[3*i+:3] = reason;
                s = n;
            end
        end
        state_next = s;
    end

    always_ff @(posedge clk) begin
        // A gap is prepared for a word before it comes, so that no choice stands before the chain.
        if (rst || gap_next) state <= HUNTING;
        else state <= state_next;
        left_open <= gap_next && !rst && state_next.payload;
        gap_out <= gap && !rst;
        cut <= left_open && !rst;
        keep_out <= rst ? '0 : keep;
        data_out <= data;
        entry_out <= entry;
        header <= rst ? '0 : header_next;
        start <= start_next;
        last <= rst ? '0 : last_next;
        why <= why_next;
    end

endmodule
