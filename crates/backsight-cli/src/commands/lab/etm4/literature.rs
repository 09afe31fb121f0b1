//! What a paper on a decoder in hardware, and the thesis before it, say of the bandwidth of such a unit.

/// The program that the paper and we both have.
pub const SIMPLE_LOOP: &str = "simple-loop";

/// Megabytes a second that the simple loop exceeds on a Cortex-A53 at 1.3 GHz, traced by one unit (paper, figure 1).
pub const SIMPLE_LOOP_RATE: f64 = 1000.0;

/// What each of them takes, in MB/s.
pub const SINKS: [(&str, &str); 5] = [
    ("trace of one core, \"upwards of\" (thesis, abstract)", "100"),
    ("simple loop on a Cortex-A53 at 1.3 GHz, more than (paper, figure 1)", "1000"),
    ("decoder before the paper's, worst case to best (paper, table II)", "125 to 250"),
    ("the paper's decoder, 1 byte a cycle at 550 MHz (paper, table II)", "550"),
    ("the paper's decoder, 4 bytes a cycle at 250 MHz; so does the TPIU (paper, table II)", "1000"),
];

/// What the thesis expects, in words (8.2.2): no study of bandwidth was known to it.
pub const EXPECTED: &str = "The thesis (8.2.2) expects, without figures, that cycle counts with a low threshold and branch broadcast raise \
     bandwidth most,\nand that loops of few cycles send most.";
