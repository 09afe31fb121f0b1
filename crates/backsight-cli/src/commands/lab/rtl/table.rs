//! The figures as text, as JSON and as comma-separated values.

use std::fmt::Write;

use backsight_rtl::lab::{Family, Netlist, Tools};
use serde_json::{Value, json};

use super::Measured;
use super::published::{Row, TABLE};

const NOTES: &str = "\
LUT6: LUTs of six inputs and the longest path in them, whatever the device (no carry chains; but for chains memories apart).
UltraScale+: LUTs in all, and of these memory and shift registers; flip-flops, block RAMs of 36 Kbit, longest path.
ECP5: LUTs of four inputs (carry chains and memories with them), MHz and MB/s routed on an LFE5U-85F, speed grade 8, without pins, one seed.
Table II: the published decoder whose chain this one follows (Vivado, xczu5ev-2), about 60 % of the packets in its first version.
";

/// The table.
pub fn text(tools: &Tools, measured: &[Measured]) -> String {
    let mut text = format!("{}\n", tools.yosys.version);
    if let Some(nextpnr) = &tools.nextpnr {
        let _ = writeln!(text, "{}", nextpnr.version);
    }
    text.push_str(
        "\n                     LUT6          UltraScale+                           ECP5                   table II\n\
         design               LUTs  depth    LUTs  memory     FF  BRAM  depth    LUT4    MHz   MB/s    LUT    FF  MHz  MB/s\n",
    );
    for row in measured {
        let _ = write!(text, "{:<18}", row.variant.name);
        match row.figures.generic {
            Some(netlist) => {
                let _ = write!(text, "{:>7}{:>7}", netlist.luts, netlist.depth);
            }
            None => text.push_str(&" ".repeat(14)),
        }
        match row.figures.xilinx {
            Some(netlist) => {
                let all = netlist.all_luts();
                let Netlist { memory_luts, flip_flops, block_rams, depth, .. } = netlist;
                let _ = write!(text, "{all:>8}{memory_luts:>8}{flip_flops:>7}{block_rams:>6}{depth:>7}");
            }
            None => text.push_str(&" ".repeat(36)),
        }
        match (row.figures.routed, row.rate()) {
            (Some(routed), Some(rate)) => {
                let _ = write!(text, "{:>8}{:>7.1}{rate:>7.0}", routed.luts, routed.clock);
            }
            (Some(routed), None) => {
                let _ = write!(text, "{:>8}{:>7.1}{:>7}", routed.luts, routed.clock, "");
            }
            (None, _) => text.push_str(&" ".repeat(22)),
        }
        if let Some(row) = published(row) {
            let _ = write!(text, "{:>7}{:>6}{:>5}{:>6}", row.luts, row.flip_flops, row.clock, row.rate());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let _ = write!(text, "\n{NOTES}");
    text
}

/// The published decoder of the same shape and width.
fn published(row: &Measured) -> Option<&'static Row> {
    if row.variant.family == Family::Chain { Row::of(row.variant.lanes?) } else { None }
}

fn netlist(netlist: &Netlist) -> Value {
    let Netlist { luts, memory_luts, flip_flops, block_rams, depth } = netlist;
    json!({ "luts": luts, "memory_luts": memory_luts, "all_luts": netlist.all_luts(), "flip_flops": flip_flops,
            "block_rams": block_rams, "depth": depth })
}

/// One object.
pub fn json(tools: &Tools, measured: &[Measured]) -> Value {
    let variants: Vec<Value> = measured
        .iter()
        .map(|row| {
            json!({
                "name": row.variant.name,
                "family": row.variant.family.name(),
                "lanes": row.variant.lanes,
                "top": row.variant.top,
                "lut6": row.figures.generic.as_ref().map(netlist),
                "ultrascale_plus": row.figures.xilinx.as_ref().map(netlist),
                "ecp5": row.figures.routed.map(|routed| json!({
                    "luts": routed.luts, "flip_flops": routed.flip_flops, "block_rams": routed.block_rams, "mhz": routed.clock, "mb_per_second": row.rate(),
                })),
            })
        })
        .collect();
    let published = TABLE.map(|row| {
        json!({ "lanes": row.lanes, "luts": row.luts, "flip_flops": row.flip_flops, "mhz": row.clock,
                "mb_per_second": row.rate() })
    });
    json!({
        "yosys": tools.yosys.version,
        "nextpnr": tools.nextpnr.as_ref().map(|tool| &tool.version),
        "variants": variants,
        "table_ii": published,
    })
}

/// A line for each variant; what was not measured is empty.
pub fn csv(measured: &[Measured]) -> String {
    let mut text = String::from(
        "name,family,lanes,lut6_luts,lut6_depth,xcup_luts,xcup_memory_luts,xcup_all_luts,xcup_flip_flops,xcup_block_rams,xcup_depth,\
         ecp5_luts,ecp5_flip_flops,ecp5_block_rams,ecp5_mhz,ecp5_mb_per_second,table_ii_luts,table_ii_flip_flops,table_ii_mhz\n",
    );
    for row in measured {
        let (generic, xilinx, routed) = (row.figures.generic, row.figures.xilinx, row.figures.routed);
        let published = published(row);
        let cells = [
            row.variant.name.clone(),
            row.variant.family.name().to_owned(),
            cell(row.variant.lanes),
            cell(generic.map(|netlist| netlist.luts)),
            cell(generic.map(|netlist| netlist.depth)),
            cell(xilinx.map(|netlist| netlist.luts)),
            cell(xilinx.map(|netlist| netlist.memory_luts)),
            cell(xilinx.as_ref().map(Netlist::all_luts)),
            cell(xilinx.map(|netlist| netlist.flip_flops)),
            cell(xilinx.map(|netlist| netlist.block_rams)),
            cell(xilinx.map(|netlist| netlist.depth)),
            cell(routed.map(|routed| routed.luts)),
            cell(routed.map(|routed| routed.flip_flops)),
            cell(routed.map(|routed| routed.block_rams)),
            cell(routed.map(|routed| routed.clock)),
            cell(row.rate()),
            cell(published.map(|row| row.luts)),
            cell(published.map(|row| row.flip_flops)),
            cell(published.map(|row| row.clock)),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
