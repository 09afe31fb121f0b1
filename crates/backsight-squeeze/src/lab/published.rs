//! The figures of the text, to stand beside ours. Programs are those of MiBench for Arm: schemes can be compared, and the
//! order of programs, but not bit for bit.

/// Bits an instruction (table 4.14).
pub const SCHEMES: [&str; 13] = [
    "base", "nexs", "lz256", "lz1024", "edmtf64", "edmtf", "bsdc", "esdc", "rsdc", "ttmbp", "stmbp", "btmbp",
    "gzip",
];

/// Each program's figures, in the order of [`SCHEMES`]; the last row is the average.
#[rustfmt::skip]
pub const PROGRAMS: [(&str, [f64; 13]); 18] = [
    ("adpcm_c", [0.150, 0.149, 0.024, 0.025, 0.001, 0.001, 0.019, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001]),
    ("bf_e", [4.913, 4.010, 0.354, 0.367, 0.279, 0.284, 0.357, 0.345, 0.345, 0.011, 0.009, 0.009, 0.038]),
    ("cjpeg", [0.790, 0.752, 0.431, 0.138, 0.089, 0.091, 0.131, 0.088, 0.088, 0.062, 0.044, 0.040, 0.050]),
    ("djpeg", [0.390, 0.366, 0.230, 0.176, 0.055, 0.052, 0.075, 0.053, 0.054, 0.035, 0.024, 0.021, 0.019]),
    ("fft", [1.895, 1.554, 1.921, 1.036, 1.012, 0.201, 0.616, 0.542, 0.554, 0.166, 0.096, 0.091, 0.065]),
    ("ghostscript", [1.814, 1.578, 1.394, 0.187, 0.299, 0.306, 0.232, 0.216, 0.216, 0.513, 0.230, 0.127, 0.038]),
    ("gsm_d", [0.621, 0.567, 0.152, 0.151, 0.058, 0.040, 0.086, 0.051, 0.052, 0.013, 0.013, 0.013, 0.009]),
    ("lame", [0.452, 0.391, 0.171, 0.148, 0.110, 0.113, 0.102, 0.090, 0.109, 0.028, 0.029, 0.029, 0.040]),
    ("mad", [0.785, 0.668, 0.268, 0.144, 0.135, 0.147, 0.129, 0.116, 0.117, 0.035, 0.033, 0.033, 0.042]),
    ("rijndael_e", [1.013, 0.840, 0.043, 0.038, 0.088, 0.096, 0.192, 0.183, 0.185, 0.078, 0.070, 0.016, 0.013]),
    ("rsynth", [0.883, 0.747, 0.271, 0.247, 0.184, 0.108, 0.175, 0.147, 0.149, 0.023, 0.021, 0.021, 0.018]),
    ("sha", [0.602, 0.567, 0.441, 0.036, 0.049, 0.049, 0.101, 0.074, 0.074, 0.029, 0.020, 0.022, 0.005]),
    ("stringsearch", [2.157, 1.932, 1.962, 1.135, 0.825, 0.387, 0.472, 0.412, 0.416, 0.303, 0.183, 0.164, 0.104]),
    ("tiff2bw", [0.668, 0.654, 0.146, 0.137, 0.061, 0.011, 0.104, 0.030, 0.031, 0.013, 0.011, 0.007, 0.006]),
    ("tiff2rgba", [0.349, 0.330, 0.160, 0.095, 0.050, 0.006, 0.045, 0.012, 0.012, 0.015, 0.011, 0.008, 0.005]),
    ("tiffdither", [0.692, 0.659, 0.573, 0.301, 0.197, 0.166, 0.190, 0.158, 0.159, 0.062, 0.062, 0.062, 0.080]),
    ("tiffmedian", [0.380, 0.374, 0.081, 0.073, 0.039, 0.012, 0.066, 0.027, 0.028, 0.009, 0.008, 0.007, 0.007]),
    ("average", [1.055, 0.907, 0.446, 0.233, 0.194, 0.119, 0.174, 0.146, 0.150, 0.076, 0.047, 0.036, 0.031]),
];

/// What a scheme needs for a program in the text.
pub fn bits(program: &str, scheme: &str) -> Option<f64> {
    let column = SCHEMES.iter().position(|known| *known == scheme)?;
    PROGRAMS.iter().find(|(name, _)| *name == program).map(|(_, row)| row[column])
}

/// Data addresses, averages: share of references filtered; compression ratios by total over total (recomputed from table
/// 5.10): filtering, ADAC 16x4, ADAC 128x4, Nexus.
pub const ADDRESSES: (f64, [f64; 4]) = (0.72, [3.57, 3.03, 4.82, 1.55]);

/// Cache sizes in KB, average flag hit rates and average bits an instruction of first-access tracking (tables 6.6, 6.7).
pub const FIRST_ACCESS: [(u32, f64, f64); 8] = [
    (1, 0.648, 3.34),
    (2, 0.726, 2.58),
    (4, 0.793, 1.96),
    (8, 0.863, 1.22),
    (16, 0.924, 0.85),
    (32, 0.966, 0.59),
    (64, 0.978, 0.51),
    (128, 0.985, 0.46),
];

/// Load values: block sizes, average entropy, unique values and compression ratio (tables 6.1, 6.2).
pub const ENTROPY: [(u32, f64, f64, f64); 4] = [
    (1024, 6.3, 270.0, 2.47),
    (8192, 7.2, 1197.0, 2.97),
    (65536, 8.1, 5887.0, 3.16),
    (131_072, 8.3, 10483.0, 3.17),
];
