//! Plots as SVG.

use std::fmt::Write;

/// A point of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What it is.
    pub name: String,
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const MARGIN: f64 = 60.0;

fn scale(value: f64, (low, high): (f64, f64), length: f64) -> f64 {
    let (value, low, high) = (value.ln(), low.ln(), high.ln());
    if high > low { (value - low) / (high - low) * length } else { length / 2.0 }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    (low * 0.8, high * 1.25)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The points that no other one has less of both than, from left to right.
fn frontier<'p>(points: &[&'p Point]) -> Vec<&'p Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let mut least = f64::INFINITY;
    sorted.retain(|point| {
        point.y < least && {
            least = point.y;
            true
        }
    });
    sorted
}

/// Named points on two logarithmic axes, and a line through those that no other one has less of both than; points that are not
/// positive are left out.
pub fn scatter(title: &str, across: &str, up: &str, points: &[Point]) -> String {
    let points: Vec<_> = points.iter().filter(|point| point.x > 0.0 && point.y > 0.0).collect();
    let mut svg = begin(title, across, up);
    let xs = range(points.iter().map(|point| point.x));
    let ys = range(points.iter().map(|point| point.y));
    ticks(&mut svg, xs, ys);
    let place = |point: &Point| {
        let x = MARGIN + scale(point.x, xs, WIDTH - 2.0 * MARGIN);
        (x, HEIGHT - MARGIN - scale(point.y, ys, HEIGHT - 2.0 * MARGIN))
    };
    let line: String =
        frontier(&points).into_iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
    let _ = writeln!(svg, "<polyline points=\"{line}\" fill=\"none\" stroke=\"#c86\"/>");
    for point in &points {
        let (x, y) = place(point);
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#246\"><title>{name}: {px:.0}, {py:.4}</title></circle>\
             <text x=\"{tx:.1}\" y=\"{ty:.1}\">{name}</text>",
            name = escape(&point.name),
            px = point.x,
            py = point.y,
            tx = x + 6.0,
            ty = y - 5.0,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Values in order, from 0 up.
pub fn series(title: &str, across: &str, up: &str, values: &[f64]) -> String {
    let mut svg = begin(title, across, up);
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let step = (WIDTH - 2.0 * MARGIN) / values.len().max(1) as f64;
    let mut path = String::new();
    for (n, value) in values.iter().enumerate() {
        let x = MARGIN + (n as f64 + 0.5) * step;
        let y = HEIGHT - MARGIN - value / most * (HEIGHT - 2.0 * MARGIN);
        let _ = write!(path, "{x:.1},{y:.1} ");
    }
    let _ = writeln!(svg, "<polyline points=\"{path}\" fill=\"none\" stroke=\"#246\"/>");
    let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{:.1}\">{most:.4}</text>", MARGIN - 6.0);
    svg.push_str("</svg>\n");
    svg
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Across and up, in order.
    pub points: Vec<(f64, f64)>,
}

const COLOURS: [&str; 6] = ["#1f77b4", "#2ca02c", "#444444", "#d62728", "#9467bd", "#ff7f0e"];

/// Panels one above the other, each a title, what is up and its curves, on logarithmic axes; what is across is the same for all.
/// Points that are not positive are left out.
pub fn curves(across: &str, panels: &[(&str, &str, &[Curve])]) -> String {
    let full = HEIGHT * panels.len() as f64;
    let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {full}\">\n");
    for (number, (title, up, curves)) in panels.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", HEIGHT * number as f64);
        svg.push_str(&panel(title, across, up, curves));
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(title: &str, across: &str, up: &str, curves: &[Curve]) -> String {
    let mut svg = begin(title, across, up);
    let points = |curve: &Curve| -> Vec<(f64, f64)> {
        curve.points.iter().copied().filter(|&(x, y)| x > 0.0 && y > 0.0).collect()
    };
    let all: Vec<_> = curves.iter().flat_map(points).collect();
    let xs = range(all.iter().map(|point| point.0));
    let ys = range(all.iter().map(|point| point.1));
    ticks(&mut svg, xs, ys);
    for (number, (curve, colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let mut path = String::new();
        for (x, y) in points(curve) {
            let at_x = MARGIN + scale(x, xs, WIDTH - 2.0 * MARGIN);
            let at_y = HEIGHT - MARGIN - scale(y, ys, HEIGHT - 2.0 * MARGIN);
            let _ = write!(path, "{at_x:.1},{at_y:.1} ");
            let _ = writeln!(
                svg,
                "<circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"4\" fill=\"{colour}\"><title>{}: {x}, {y:.0}</title></circle>",
                escape(&curve.name)
            );
        }
        let _ = writeln!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            MARGIN + 12.0,
            MARGIN + 14.0 * number as f64,
            escape(&curve.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn begin(title: &str, across: &str, up: &str) -> String {
    let (right, bottom) = (WIDTH - MARGIN, HEIGHT - MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"15\">{}</text>\n\
         <path d=\"M{MARGIN} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
         <text x=\"14\" y=\"{MARGIN}\">{}</text>\n",
        escape(title),
        HEIGHT - 14.0,
        escape(across),
        escape(up),
    )
}

/// A mark at 1, 2 and 5 of every power of ten.
fn ticks(svg: &mut String, xs: (f64, f64), ys: (f64, f64)) {
    let marks = |(low, high): (f64, f64)| {
        (-6..8)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
            .filter(move |value| (low..=high).contains(value))
    };
    for x in marks(xs) {
        let at = MARGIN + scale(x, xs, WIDTH - 2.0 * MARGIN);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
            HEIGHT - MARGIN + 15.0
        );
    }
    for y in marks(ys) {
        let at = HEIGHT - MARGIN - scale(y, ys, HEIGHT - 2.0 * MARGIN);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{y}</text>", MARGIN - 5.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_with_a_value_is_drawn() {
        let point = |name: &str, x, y| Point { name: name.into(), x, y };
        let svg = scatter("a < b", "gates", "bits", &[point("p&q", 10.0, 0.1), point("absent", 0.0, 1.0)]);
        assert!(svg.contains("a &lt; b") && svg.contains("p&amp;q") && !svg.contains("absent"));
        assert_eq!(svg.matches("<circle").count(), 1);
        let points =
            [point("a", 4.0, 1.0), point("worse", 5.0, 2.0), point("b", 1.0, 3.0), point("c", 9.0, 0.5)];
        let names: Vec<_> = frontier(&points.each_ref()).iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert!(series("t", "x", "y", &[1.0, 2.0]).contains("<polyline"));
    }

    #[test]
    fn curves_lie_one_above_the_other_without_points_that_have_no_logarithm() {
        let curve = Curve { name: "p&q".into(), points: vec![(1.0, 10.0), (2.0, 0.0), (4.0, 30.0)] };
        let empty = Curve { name: "none".into(), points: vec![] };
        let svg = curves("x", &[("a", "up", &[curve]), ("b", "up", &[empty])]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (2, 2));
        assert!(svg.contains("p&amp;q") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
