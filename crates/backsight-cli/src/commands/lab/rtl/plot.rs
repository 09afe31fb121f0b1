//! LUTs and bytes a second over bytes a cycle, in SVG.

use backsight_rtl::lab::Family;
use backsight_squeeze::lab::plot::{Curve, curves};

use super::Measured;
use super::published::TABLE;

/// Two panels, one above the other.
pub fn svg(measured: &[Measured]) -> String {
    let area = [
        curve("chain", measured, Family::Chain, |row| Some(row.figures.xilinx?.luts as f64)),
        curve("parallel prefix", measured, Family::Prefix, |row| Some(row.figures.xilinx?.luts as f64)),
        Curve {
            name: "table II".to_owned(),
            points: TABLE.iter().map(|row| (f64::from(row.lanes), f64::from(row.luts))).collect(),
        },
    ];
    let rate = [
        curve("chain, ECP5", measured, Family::Chain, Measured::rate),
        curve("parallel prefix, ECP5", measured, Family::Prefix, Measured::rate),
        Curve {
            name: "table II, UltraScale+".to_owned(),
            points: TABLE.iter().map(|row| (f64::from(row.lanes), f64::from(row.rate()))).collect(),
        },
    ];
    curves(
        "bytes a cycle",
        &[("LUTs of logic on UltraScale+", "LUTs", &area), ("Millions of bytes a second", "MB/s", &rate)],
    )
}

fn curve(name: &str, measured: &[Measured], family: Family, of: impl Fn(&Measured) -> Option<f64>) -> Curve {
    let points = measured
        .iter()
        .filter(|row| row.variant.family == family)
        .filter_map(|row| Some((f64::from(row.variant.lanes?), of(row)?)))
        .collect();
    Curve { name: name.to_owned(), points }
}
