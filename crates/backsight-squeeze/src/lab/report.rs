//! The tables of the text again, with its figures beside ours.

use super::data::{ADDRESSES, DataOutcome, MASKS, SMALL};
use super::gates::{gates, state_bits};
use super::{Outcome, published};
use crate::scheme::Scheme;
use std::fmt::Write;

/// One program's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The program.
    pub name: String,
    /// Instructions.
    pub instructions: u64,
    /// What each scheme made of it.
    pub outcomes: Vec<Outcome>,
    /// Data, where it was measured.
    pub data: Option<DataOutcome>,
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Bits an instruction of a scheme over all programs, weighted by instructions as in the text.
pub fn average(rows: &[Row], scheme: usize) -> f64 {
    let bits = rows.iter().map(|row| row.outcomes[scheme].bits).sum();
    share(bits, rows.iter().map(|row| row.instructions).sum())
}

/// Bits an instruction of a scheme, the mean of all programs: each counts the same, however long it ran.
pub fn mean(rows: &[Row], scheme: usize) -> f64 {
    let sum: f64 = rows.iter().map(|row| share(row.outcomes[scheme].bits, row.instructions)).sum();
    sum / rows.len().max(1) as f64
}

/// Bits an instruction: ours, and in brackets those of the text.
pub fn instruction_table(names: &[String], schemes: &[Scheme], rows: &[Row]) -> String {
    let mut text = String::new();
    let width = names.iter().map(|name| name.len() + 2).max().unwrap_or(0).max(17);
    let _ = write!(text, "{:14}{:>9}", "program", "M ins");
    for name in names {
        let _ = write!(text, "{name:>width$}");
    }
    text.push('\n');
    let cell = |ours: f64, theirs: Option<f64>| match theirs {
        Some(theirs) => format!("{ours:.4} ({theirs:.3})"),
        None => format!("{ours:.4}        "),
    };
    for row in rows {
        let _ = write!(text, "{:14}{:>9.1}", row.name, row.instructions as f64 / 1e6);
        for (name, outcome) in names.iter().zip(&row.outcomes) {
            let ours = share(outcome.bits, row.instructions);
            let _ = write!(text, "{:>width$}", cell(ours, published::bits(&row.name, name)));
        }
        text.push('\n');
    }
    let total: u64 = rows.iter().map(|row| row.instructions).sum();
    let _ = write!(text, "{:14}{:>9.1}", "average", total as f64 / 1e6);
    for (number, name) in names.iter().enumerate() {
        let _ = write!(text, "{:>width$}", cell(average(rows, number), published::bits("average", name)));
    }
    let _ = write!(text, "\n{:23}", "mean of programs");
    for number in 0..names.len() {
        let _ = write!(text, "{:>width$.4}", mean(rows, number));
    }
    let _ = write!(text, "\n{:23}", "ratio to 32 bits");
    for number in 0..names.len() {
        let _ = write!(text, "{:>width$.1}", 32.0 / average(rows, number));
    }
    let _ = write!(text, "\n{:23}", "state, bytes");
    for scheme in schemes {
        let _ = write!(text, "{:>width$}", state_bits(scheme).div_ceil(8));
    }
    let _ = write!(text, "\n{:23}", "gates, by its rules");
    for scheme in schemes {
        let _ = write!(text, "{:>width$}", gates(scheme).map_or("-".into(), |gates| gates.to_string()));
    }
    let _ = write!(text, "\n{:23}", "smallest buffer, bits");
    for number in 0..names.len() {
        let most = rows.iter().map(|row| row.outcomes[number].buffer).max().unwrap_or(0);
        let _ = write!(text, "{most:>width$}");
    }
    text.push('\n');
    text
}

/// What the bits of each scheme are for, in percent, and how many events there were.
pub fn share_table(names: &[String], rows: &[Row]) -> String {
    let mut text = String::new();
    for (number, name) in names.iter().enumerate() {
        let _ = write!(text, "{name:10}");
        let shares = |row: &Row| row.outcomes[number].shares.clone();
        let Some(kinds) = rows.first().map(shares) else { continue };
        let bits: u64 = rows.iter().flat_map(shares).map(|share| share.bits).sum();
        let events: u64 = rows.iter().flat_map(shares).map(|share| share.events).sum();
        for kind in kinds {
            let all = rows.iter().flat_map(shares).filter(|share| share.name == kind.name);
            let (b, e) = all.fold((0, 0), |(b, e), share| (b + share.bits, e + share.events));
            let _ = write!(
                text,
                "  {}: {:.1} % of bits, {:.1} % of events",
                kind.name,
                100.0 * share(b, bits),
                100.0 * share(e, events)
            );
        }
        text.push('\n');
    }
    text
}

/// Data addresses: what is filtered, and ratios by total over total, against 64 and 32 bits a reference.
pub fn address_table(rows: &[Row]) -> String {
    let data: Vec<_> =
        rows.iter().filter_map(|row| row.data.as_ref().map(|data| (&row.name, data))).collect();
    let mut text = format!("{:14}{:>9}{:>10}", "program", "refs/ins", "filtered");
    for (name, _) in &ADDRESSES {
        let _ = write!(text, "{name:>23}");
    }
    text.push('\n');
    for (name, data) in &data {
        let _ = write!(
            text,
            "{name:14}{:>9.3}{:>9.1}%",
            share(data.references, data.instructions),
            100.0 * share(data.filtered, data.references)
        );
        for &bits in &data.address_bits {
            let _ = write!(
                text,
                "{:>14.4} b/i {:>4.1}",
                share(bits, data.instructions),
                share(64 * data.references, bits)
            );
        }
        text.push('\n');
    }
    let sum = |of: &dyn Fn(&DataOutcome) -> u64| data.iter().map(|(_, data)| of(data)).sum::<u64>();
    let references = sum(&|data| data.references);
    let _ = write!(
        text,
        "{:14}{:>9.3}{:>9.1}%",
        "all",
        share(references, sum(&|data| data.instructions)),
        100.0 * share(sum(&|data| data.filtered), references)
    );
    for number in 0..ADDRESSES.len() {
        let bits = sum(&|data| data.address_bits[number]);
        let _ = write!(
            text,
            "{:>14.4} b/i {:>4.1}",
            share(bits, sum(&|data| data.instructions)),
            share(64 * references, bits)
        );
    }
    let (filtered, [filtering, adac16, adac128, nexus]) = published::ADDRESSES;
    let _ = writeln!(
        text,
        "\nratios are to 64 bits a reference. The text, to 32: filtered {:.0} %, filtering {filtering}, ADAC 16x4 {adac16}, \
         ADAC 128x4 {adac128}, Nexus {nexus}",
        100.0 * filtered
    );
    text
}

/// Load values: caches, entropies, small values.
pub fn value_table(rows: &[Row]) -> String {
    let data: Vec<_> = rows.iter().filter_map(|row| row.data.as_ref()).collect();
    let sum = |of: &dyn Fn(&DataOutcome) -> u64| data.iter().map(|data| of(data)).sum::<u64>();
    let (loads, raw, instructions) =
        (sum(&|data| data.loads), sum(&|data| data.raw_bits), sum(&|data| data.instructions));
    let mut text = String::from(
        "cache     first access: hit rate, bits/ins, ratio      dedicated: hit rate, bits/ins, ratio\n",
    );
    for (number, (size, rate, bits)) in published::FIRST_ACCESS.iter().enumerate() {
        let _ = write!(text, "{size:>4} KB ");
        for which in 0..2 {
            let known = sum(&|data| data.values[number][which].0);
            let ours = sum(&|data| data.values[number][which].1);
            let _ = write!(
                text,
                "{:>10.3}{:>8.3}{:>8.2}",
                share(known, loads),
                share(ours, instructions),
                share(raw, ours)
            );
            if which == 0 {
                let _ = write!(text, "  (text {rate:.3}, {bits:.2})  ");
            }
        }
        text.push('\n');
    }
    let mean = |of: &dyn Fn(&DataOutcome) -> Option<f64>| {
        let all: Vec<_> =
            data.iter().filter_map(|data| of(data).map(|value| (value, data.loads as f64))).collect();
        all.iter().map(|(value, weight)| value * weight).sum::<f64>()
            / all.iter().map(|(_, weight)| weight).sum::<f64>()
    };
    for (number, (block, entropy, unique, ratio)) in published::ENTROPY.iter().enumerate() {
        let ours = [
            mean(&|data| data.entropies[number].map(|found| found.entropy[1])),
            mean(&|data| data.entropies[number].map(|found| found.unique)),
            mean(&|data| data.entropies[number].map(|found| found.ratio)),
        ];
        let _ = writeln!(
            text,
            "blocks of {block:>6}: entropy {:.1} bits ({entropy}), {:.0} unique ({unique}), ratio {:.2} ({ratio})",
            ours[0], ours[1], ours[2]
        );
    }
    for (number, mask) in MASKS.iter().enumerate() {
        let ratio = mean(&|data| data.masked[number].map(|found| found.ratio));
        let _ = writeln!(
            text,
            "{mask:>2} low bits as they are: ratio {ratio:.2} ({})",
            [3.17, 2.58, 2.15, 1.79][number]
        );
    }
    for (number, size) in SMALL.iter().enumerate() {
        let fits = sum(&|data| data.small[number]);
        let _ = write!(text, "{size} bits: {:.3}  ", share(fits, loads));
    }
    text.push_str("of loads fit\n");
    text
}
