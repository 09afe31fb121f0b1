// Latencies of the parallel-prefix form, in words, by the number of lanes.

package etm4_prefix_pkg;

    function automatic int lengths_words(input int lanes);
        lengths_words = (10 + lanes - 1) / lanes + 16;
    endfunction

    function automatic int room_words(input int lanes);
        room_words = (30 + lanes - 1) / lanes + 3;
    endfunction

    localparam int SEARCH = 2;

    function automatic int stream_words(input int lanes);
        stream_words = 2 * $clog2(lanes) + 3;
    endfunction

    function automatic int packets_words(input int lanes);
        packets_words = (17 + lanes - 1) / lanes + 2;
    endfunction

    function automatic int scan_words(input int lanes);
        scan_words = ($clog2(lanes) + 1) / 2 + 1;
    endfunction

    // Addresses take longest, or the threshold.
    function automatic int state_words(input int lanes);
        state_words = scan_words(lanes) + lanes / 2 + 2 > lanes / 4 + 6 ? scan_words(lanes) + lanes / 2 + 2
                                                                        : lanes / 4 + 6;
    endfunction

    function automatic int record_words(input int lanes);
        record_words = $clog2(lanes) + 2;
    endfunction

endpackage
