//! Table 4.1 of the thesis: programs on the RTL encoder.

use backsight_run::measure::Sent;

/// A row: test, committed instructions, packets, bytes.
pub struct Row {
    /// The test.
    pub test: &'static str,
    /// Instructions that it committed.
    pub instructions: u64,
    /// What the encoder sent.
    pub figures: Sent,
}

const fn row(test: &'static str, instructions: u64, packets: u64, bytes: u64) -> Row {
    Row { test, instructions, figures: Sent { packets, bytes } }
}

/// The table.
pub const TABLE: [Row; 20] = [
    row("axi_hyper_fibonacci", 17576, 56, 176),
    row("backend_test", 331, 50, 162),
    row("bypass_cva6_dco", 16500, 89, 305),
    row("can", 351, 58, 179),
    row("dhrystone", 2370, 46, 149),
    row("fp16_matmul", 22894, 90, 273),
    row("fp16-vec_matmul", 23331, 94, 287),
    row("gpios", 4962, 125, 479),
    row("gpios_all", 6126, 285, 1231),
    row("hello", 654, 72, 250),
    row("hello_culsans", 772, 73, 360),
    row("hyperbus", 14585, 75, 253),
    row("kmeans", 936, 57, 186),
    row("l1_test", 16784, 62, 197),
    row("llc_spm_test", 323, 49, 160),
    row("mbox_test", 1388, 131, 463),
    row("mm", 16784, 62, 197),
    row("sb_macl_444", 23221, 83, 244),
    row("sb_macl_844", 20273, 82, 242),
    row("timer", 956, 216, 565),
];

/// The mean rate over the tests.
pub fn mean_rate() -> f64 {
    TABLE.iter().map(|row| row.figures.rate(row.instructions)).sum::<f64>() / TABLE.len() as f64
}

/// The mean number of bits for each instruction.
pub fn mean_bits() -> f64 {
    TABLE.iter().map(|row| row.figures.bits_per_instruction(row.instructions)).sum::<f64>()
        / TABLE.len() as f64
}
