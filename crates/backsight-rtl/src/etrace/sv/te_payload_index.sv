// The payload that names an address by its index in the jump target cache, with the branches before it: format 0, subformat 1.

module te_payload_index (
    input  logic [te_pkg::IADDR-1:0]   address,
    input  logic [30:0]                map,
    input  logic [4:0]                 count,
    input  logic                       irreport,
    input  logic [te_pkg::IRETS-1:0]   irets,
    output logic [te_pkg::PAYLOAD-1:0] payload
);

    localparam int W = te_pkg::PAYLOAD;
    localparam int INDEX_AT = 2 + te_pkg::SUBFORMAT;
    localparam int MAP_AT = INDEX_AT + te_pkg::CACHE + 5;

    logic [MAP_AT-1:0] head;
    logic              above;
    logic [W-1:0]      tail;
    assign head = {count, address[te_pkg::LSB+:te_pkg::CACHE], INDEX_AT'(te_pkg::SUBFORMAT > 0 ? 4 : 0)};
    // The last bit of the branch map; without one, of its length.
    assign above = count[4] ? map[30] : count[3] ? map[14] : count[2] ? map[6] : count[1] ? map[2] : count[0] && map[0];
    assign tail = te_pkg::IMPLICIT_RETURN && irreport
        ? {{(W - 1 - te_pkg::IRETS){irets[te_pkg::IRETS-1]}}, irets, !above} : {W{above}};

    always_comb begin
        if (count[4]) payload = {tail[W-MAP_AT-32:0], map, head};
        else if (count[3]) payload = {tail[W-MAP_AT-16:0], map[14:0], head};
        else if (count[2]) payload = {tail[W-MAP_AT-8:0], map[6:0], head};
        else if (count[1]) payload = {tail[W-MAP_AT-4:0], map[2:0], head};
        else if (count[0]) payload = {tail[W-MAP_AT-2:0], map[0], head};
        else payload = {tail[W-MAP_AT-1:0], head};
    end

endmodule
