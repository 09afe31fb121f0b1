//! Differences to read.

use std::io::{Result, Write};

use backsight::SourceCode;
use backsight::diff::{Difference, Shown, What};
use backsight::image::{Disassembler, Naming};
use backsight::listing::Printable;
use backsight::moments::Moment;
use backsight::steps::Bytes;

use super::pairs::Pair;
use super::totals::Totals;
use crate::output::counted;

/// Functions in the summary.
const FUNCTIONS: usize = 10;

/// The names of the sides.
pub const SIDES: [&str; 2] = ["first", "second"];

/// What marks instructions of each side.
const MARKS: [&str; 2] = ["-", "+"];

pub fn head(names: [&str; 2], out: &mut dyn Write) -> Result<()> {
    names.iter().zip(["---", "+++"]).try_for_each(|(name, mark)| writeln!(out, "{mark} {}", Printable(name)))
}

pub fn pair(pair: &Pair, out: &mut dyn Write) -> Result<()> {
    let [one, other] = [0, 1].map(|side: usize| {
        let source = &pair.sources[side];
        format!("{} ({})", source.hart_name(pair.harts[side].unwrap_or(0)), source.id())
    });
    writeln!(out, "# {} beside {}", Printable(&one), Printable(&other))
}

pub fn difference(
    number: u64,
    difference: &Difference,
    place: &str,
    code: &[SourceCode<'_>; 2],
    out: &mut dyn Write,
) -> Result<()> {
    let number = match difference.what {
        What::Missing { .. } => String::new(),
        _ => format!("{number}. "),
    };
    writeln!(out, "\n{number}{}: {}, at {}", Printable(place), words(difference), moments(difference))?;
    let mut lines = Lines { text: Disassembler::default() };
    for pair in &difference.before {
        lines.pair(pair, &code[0], out)?;
    }
    for (side, mark) in MARKS.iter().enumerate() {
        let part = &difference.parts[side];
        if let Some(cause) = part.exception {
            writeln!(out, "{mark} {cause}")?;
        }
        for shown in &part.first {
            lines.one(side, shown, &code[side], out)?;
        }
        let more = part.count.saturating_sub(part.first.len() as u64);
        if more > 0 {
            writeln!(out, "{mark} … {more} more")?;
        }
    }
    effects(&difference.what, out)?;
    difference.after.iter().try_for_each(|pair| lines.pair(pair, &code[0], out))
}

/// What each side has of an access or a register.
fn effects(what: &What, out: &mut dyn Write) -> Result<()> {
    let values = match what {
        What::Access { store, bytes } => {
            let verb = if *store { "stores" } else { "loads" };
            bytes.map(|byte| match byte {
                None => format!("{verb} nothing else"),
                Some((address, None)) => format!("{verb} something unknown at {address:#x}"),
                Some((address, Some(byte))) => format!("{verb} {byte:02x} at {address:#x}"),
            })
        }
        What::Register { register, values } => {
            values.each_ref().map(|value| format!("{} = {}", register.name().as_str(), digits(value)))
        }
        What::Cause(causes) => {
            causes.map(|cause| cause.map_or_else(|| "no exception".to_owned(), |cause| cause.to_string()))
        }
        _ => return Ok(()),
    };
    values.iter().zip(MARKS).try_for_each(|(value, mark)| writeln!(out, "{mark} {value}"))
}

/// The contents of a register, the most significant byte first.
pub fn digits(value: &Bytes) -> String {
    let count = 16 - value.touched.leading_zeros() as usize;
    let digit = |index: usize| match value.known >> index & 1 {
        1 => format!("{:02x}", value.bytes[index]),
        _ => "..".to_owned(),
    };
    (0..count).rev().map(digit).collect()
}

/// What a difference is, in words.
pub fn words(difference: &Difference) -> String {
    let counts = difference.parts.each_ref().map(|part| part.count);
    let instructions = |count| counted(count, "instruction");
    match difference.what {
        What::Path | What::Start => {
            let what = if difference.what == What::Start { "they begin differently" } else { "another path" };
            let only: Vec<_> = (0..2)
                .filter(|&side| counts[side] > 0)
                .map(|side| format!("{} only in the {}", instructions(counts[side]), SIDES[side]))
                .collect();
            format!("{what}: {}", only.join(", "))
        }
        What::End { side } => {
            let other = 1 - side;
            format!("the {} ends, the {} has {} more", SIDES[side], SIDES[other], instructions(counts[other]))
        }
        What::Loop { side, period, turns } => format!(
            "a loop of {} turns {} more in the {}",
            instructions(period as u64),
            counted(turns, "time"),
            SIDES[side]
        ),
        What::Handler { side, cause } => {
            format!("{cause} only in the {}: {}", SIDES[side], instructions(counts[side]))
        }
        What::Missing { side } => {
            format!("the trace of the {} is missing {}", SIDES[side], instructions(counts[1 - side]))
        }
        What::Opcode => "another opcode".to_owned(),
        What::Cause(_) => "another exception".to_owned(),
        What::Access { store: true, .. } => "another store".to_owned(),
        What::Access { .. } => "another load".to_owned(),
        What::Register { register, .. } => format!("another value of {}", register.name().as_str()),
        What::NotFound => "they are not the same again within what was looked at (--look)".to_owned(),
    }
}

fn moments(difference: &Difference) -> String {
    let of = |side: usize| {
        let part = &difference.parts[side];
        let time = part.time.map(|time| format!(" {}", Moment::Time(time))).unwrap_or_default();
        format!("{}{time}", Moment::Instruction(part.number))
    };
    format!("{} and {}", of(0), of(1))
}

struct Lines {
    text: Disassembler,
}

impl Lines {
    fn pair(&mut self, pair: &[Shown; 2], code: &SourceCode<'_>, out: &mut dyn Write) -> Result<()> {
        let numbers = pair.each_ref().map(|shown| Moment::Instruction(shown.number).to_string());
        self.line(" ", [&numbers[0], &numbers[1]], &pair[0], code, out)
    }

    fn one(&mut self, side: usize, shown: &Shown, code: &SourceCode<'_>, out: &mut dyn Write) -> Result<()> {
        let number = Moment::Instruction(shown.number).to_string();
        let mut numbers = [""; 2];
        numbers[side] = &number;
        self.line(MARKS[side], numbers, shown, code, out)
    }

    fn line(
        &mut self,
        mark: &str,
        [one, other]: [&str; 2],
        shown: &Shown,
        code: &SourceCode<'_>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let (encoding, words) = instruction(shown, code, &mut self.text);
        let address = shown.step.address;
        let place = code.names_at(shown.space, address).describe(shown.space, address, Naming::default());
        let place = place.map(|place| format!("  ; {}", Printable(&place))).unwrap_or_default();
        let line =
            format!("{mark} {one:>9} {other:>9}  {address}  {encoding:<9} {:<40}{place}", Printable(&words));
        writeln!(out, "{}", line.trim_end())
    }
}

/// An opcode as manuals write it, and its text.
pub fn instruction(shown: &Shown, code: &SourceCode<'_>, text: &mut Disassembler) -> (String, String) {
    let bytes = shown.step.bytes();
    if bytes.is_empty() {
        return Default::default();
    }
    let name = |target| code.names_at(shown.space, target).describe(shown.space, target, Naming::default());
    let words = text.disassemble(shown.step.isa, &bytes, shown.step.address).with_name(name);
    (backsight_image::encoding(shown.step.isa, &bytes), words)
}

pub fn summary(totals: &Totals, out: &mut dyn Write) -> Result<()> {
    let sums = &totals.sums;
    if totals.differences > 0 {
        writeln!(out)?;
    }
    let instructions = |count| counted(count, "instruction");
    let verb = if sums.equal == 1 { "is" } else { "are" };
    write!(out, "{} {verb} the same", instructions(sums.equal))?;
    for (only, side) in sums.only.iter().zip(SIDES).filter(|(only, _)| **only > 0) {
        write!(out, ", {only} only in the {side}")?;
    }
    for (side, name) in SIDES.iter().enumerate() {
        if sums.missing[side] > 0 {
            let other = SIDES[1 - side];
            write!(out, ", {} of the {name} missing in the trace of the {other}", sums.missing[side])?;
        }
    }
    writeln!(out)?;
    let [loads, stores, registers] = sums.effects;
    let compared: Vec<_> = [(loads, "byte loaded"), (stores, "byte stored"), (registers, "register")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| match (what, count) {
            ("register", _) => counted(count, "register write"),
            (what, 1) => format!("1 {what}"),
            (what, _) => format!("{count} {}", what.replacen("byte", "bytes", 1)),
        })
        .collect();
    if !compared.is_empty() {
        writeln!(out, "compared as well: {}", compared.join(", "))?;
    }
    if totals.lost > 0 {
        writeln!(out, "not compared: {}", counted(totals.lost, "register write"))?;
    }
    let is_open = sums.stopped || totals.alone > 0;
    match totals.differences {
        0 if is_open => writeln!(out, "no difference in what was compared"),
        0 => writeln!(out, "no difference"),
        count => {
            let kinds =
                What::NAMES.iter().zip(sums.kinds).filter(|(name, count)| *count > 0 && **name != "missing");
            let kinds: Vec<_> = kinds.map(|(name, count)| format!("{count} {name}")).collect();
            let stopped = if sums.stopped { "; the rest was not compared" } else { "" };
            writeln!(out, "{}: {}{stopped}", counted(count, "difference"), kinds.join(", "))?;
            for (name, count, only) in totals.sorted().into_iter().take(FUNCTIONS) {
                writeln!(out, "{count:>8}  -{} +{}  {}", only[0], only[1], Printable(name))?;
            }
            Ok(())
        }
    }
}
