//! The figures as bars, in SVG.

use std::fmt::Write;

use super::{mean, thesis};
use backsight_run::measure::Measured;
use backsight_run::measure::Variant;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 180.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 48.0;
/// Space between the two panels: names of the programs and the title of the second.
const BETWEEN: f64 = 72.0;

const COLOURS: [&str; 12] = [
    "#444444", "#9a9a9a", "#1f77b4", "#aec7e8", "#2ca02c", "#ff7f0e", "#9467bd", "#d62728", "#ff9896",
    "#8c564b", "#17becf", "#bcbd22",
];

/// Two panels over the programs and their mean: compression rate, and bits for each instruction.
pub fn svg(variants: &[Variant], measured: &[Measured]) -> String {
    let full = TOP + 2.0 * HEIGHT + 2.0 * BETWEEN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{full}\" viewBox=\"0 0 {WIDTH} {full}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let rates = groups(variants, measured, Measured::rate);
    let lowest = values(&rates).chain([thesis::mean_rate()]).fold(100.0, f64::min);
    Panel {
        title: "Compression rate, %",
        top: TOP,
        low: (lowest - 0.5).floor().max(0.0),
        high: 100.0,
        mark: Some(thesis::mean_rate()),
    }
    .draw(&rates, &mut svg);
    let bits = groups(variants, measured, Measured::bits);
    let highest = values(&bits).fold(0.1, f64::max);
    Panel {
        title: "Bits for each instruction",
        top: TOP + HEIGHT + BETWEEN,
        low: 0.0,
        high: (highest * 10.0).ceil() / 10.0,
        mark: Some(thesis::mean_bits()),
    }
    .draw(&bits, &mut svg);
    for (index, (variant, colour)) in variants.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let (x, y) = (WIDTH - RIGHT + 24.0, TOP + 20.0 * index as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            x + 18.0,
            y + 10.0,
            variant.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// A program and its bars; what was not measured has none.
type Group = (String, Vec<Option<f64>>);

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

fn values(groups: &[Group]) -> impl Iterator<Item = f64> + '_ {
    groups.iter().flat_map(|(_, bars)| bars.iter().flatten().copied())
}

struct Panel {
    title: &'static str,
    top: f64,
    low: f64,
    high: f64,
    /// The thesis's mean.
    mark: Option<f64>,
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        let share = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        self.top + HEIGHT * (1.0 - share)
    }

    fn draw(&self, groups: &[Group], svg: &mut String) {
        let (bottom, right) = (self.top + HEIGHT, WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>",
            self.top - 14.0,
            self.title
        );
        for step in 0..=4 {
            let value = self.low + (self.high - self.low) * f64::from(step) / 4.0;
            let y = self.y(value);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.2}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        let slot = (right - LEFT) / groups.len().max(1) as f64;
        for (index, (name, bars)) in groups.iter().enumerate() {
            let from = LEFT + slot * index as f64;
            let width = slot * 0.86 / bars.len().max(1) as f64;
            for (bar, (value, colour)) in bars.iter().zip(COLOURS.iter().cycle()).enumerate() {
                let Some(value) = value else { continue };
                let (x, y) = (from + slot * 0.07 + width * bar as f64, self.y(*value));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{value:.4}</title></rect>",
                    width * 0.9,
                    bottom - y
                );
            }
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                from + slot / 2.0,
                bottom + 18.0,
                escaped(name)
            );
        }
        if let Some(mark) = self.mark {
            let y = self.y(mark);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"black\" stroke-dasharray=\"5 4\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" paint-order=\"stroke\" stroke=\"white\" \
                 stroke-width=\"4\">thesis {mark:.2}</text>",
                right - 4.0,
                y - 5.0
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
