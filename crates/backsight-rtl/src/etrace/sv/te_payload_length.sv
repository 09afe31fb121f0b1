// The fewest bytes of a payload from which a reader can repeat it: a byte is needed if it is not all sign, or the byte below
// does not end in the sign.

module te_payload_length (
    input  logic [te_pkg::PAYLOAD-1:0] payload,
    output logic [4:0]                 bytes
);

    always_comb begin
        bytes = 5'd1;
        for (int i = 1; i < te_pkg::BYTES; i++)
            if (payload[8*i-1+:9] != {9{payload[te_pkg::PAYLOAD-1]}}) bytes = 5'(i + 1);
    end

endmodule
