// Latencies of the parallel-prefix form, in cycles, by the number of lanes.

package etm4_prefix_pkg;

    function automatic int scan_cycles(input int lanes);
        scan_cycles = ($clog2(lanes) + 1) / 2 + 2;
    endfunction

    function automatic int threshold_cycles(input int lanes);
        threshold_cycles = lanes / 4 + 7;
    endfunction

    // Addresses take longest.
    function automatic int state_cycles(input int lanes);
        state_cycles = scan_cycles(lanes) + lanes / 2 + 3;
    endfunction

endpackage
