//! Figures as bars, in SVG: panels below each other, in each a group of bars for every program.

use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 200.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 48.0;
/// Space between two panels: names of the programs and the title of the second.
const BETWEEN: f64 = 72.0;

const COLOURS: [&str; 12] = [
    "#444444", "#9a9a9a", "#1f77b4", "#aec7e8", "#2ca02c", "#ff7f0e", "#9467bd", "#d62728", "#ff9896",
    "#8c564b", "#17becf", "#bcbd22",
];

/// A program and its bars; what was not measured has none.
pub type Group = (String, Vec<Option<f64>>);

/// All values of some groups.
pub fn values(groups: &[Group]) -> impl Iterator<Item = f64> + '_ {
    groups.iter().flat_map(|(_, bars)| bars.iter().flatten().copied())
}

/// One panel.
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// The lowest value that is drawn.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// A value to compare with, and what it is.
    pub mark: Option<(&'static str, f64)>,
    /// The bars.
    pub groups: Vec<Group>,
}

/// The panels, with a legend: a name for each bar of a group.
pub fn svg<'a>(panels: &[Panel], legend: impl Iterator<Item = &'a str>) -> String {
    let full = TOP + panels.len() as f64 * (HEIGHT + BETWEEN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{full}\" viewBox=\"0 0 {WIDTH} {full}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        panel.draw(TOP + index as f64 * (HEIGHT + BETWEEN), &mut svg);
    }
    for (index, (name, colour)) in legend.zip(COLOURS.iter().cycle()).enumerate() {
        let (x, y) = (WIDTH - RIGHT + 24.0, TOP + 20.0 * index as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            x + 18.0,
            y + 10.0,
            escaped(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

impl Panel {
    /// Where a value is in a panel that begins at `top`.
    fn y(&self, top: f64, value: f64) -> f64 {
        let share = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        top + HEIGHT * (1.0 - share)
    }

    fn draw(&self, top: f64, svg: &mut String) {
        let right = WIDTH - RIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>",
            top - 14.0,
            escaped(&self.title)
        );
        for step in 0..=4 {
            let value = self.low + (self.high - self.low) * f64::from(step) / 4.0;
            let y = self.y(top, value);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.2}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        self.bars(top, svg);
        if let Some((what, mark)) = self.mark {
            let y = self.y(top, mark);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"black\" stroke-dasharray=\"5 4\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" paint-order=\"stroke\" stroke=\"white\" \
                 stroke-width=\"4\">{what} {mark:.2}</text>",
                right - 4.0,
                y - 5.0
            );
        }
    }

    fn bars(&self, top: f64, svg: &mut String) {
        let bottom = top + HEIGHT;
        let slot = (WIDTH - RIGHT - LEFT) / self.groups.len().max(1) as f64;
        for (index, (name, bars)) in self.groups.iter().enumerate() {
            let from = LEFT + slot * index as f64;
            let width = slot * 0.86 / bars.len().max(1) as f64;
            for (bar, (value, colour)) in bars.iter().zip(COLOURS.iter().cycle()).enumerate() {
                let Some(value) = value else { continue };
                let (x, y) = (from + slot * 0.07 + width * bar as f64, self.y(top, *value));
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
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
