//! The figures as bars.

use backsight_run::measure::{Measured, Variant};

use super::super::bars::{self, Group, Panel, values};
use super::{mean, thesis};

/// Two panels over the programs and their mean: compression rate, and bits for each instruction.
pub fn svg(variants: &[Variant], measured: &[Measured]) -> String {
    let rates = groups(variants, measured, Measured::rate);
    let lowest = values(&rates).chain([thesis::mean_rate()]).fold(100.0, f64::min);
    let bits = groups(variants, measured, Measured::bits);
    let highest = values(&bits).fold(0.1, f64::max);
    let panels = [
        Panel {
            title: "Compression rate, %".to_owned(),
            low: (lowest - 0.5).floor().max(0.0),
            high: 100.0,
            mark: Some(("Laghi 2024", thesis::mean_rate())),
            groups: rates,
        },
        Panel {
            title: "Bits for each instruction".to_owned(),
            low: 0.0,
            high: (highest * 10.0).ceil() / 10.0,
            mark: Some(("Laghi 2024", thesis::mean_bits())),
            groups: bits,
        },
    ];
    bars::svg(&panels, variants.iter().map(|variant| variant.name))
}

fn groups(
    variants: &[Variant],
    measured: &[Measured],
    of: impl Fn(&Measured, usize) -> Option<f64> + Copy,
) -> Vec<Group> {
    let bars = |program: &Measured| (0..variants.len()).map(|variant| of(program, variant)).collect();
    let mut groups: Vec<Group> =
        measured.iter().map(|program| (program.name.clone(), bars(program))).collect();
    let means = (0..variants.len()).map(|variant| mean(measured, variant, of)).collect();
    groups.push(("mean".to_owned(), means));
    groups
}
