//! lcov: a record for each file of source.

use std::io::Write;

use super::names::{lcov, one_line};
use super::{Coverage, ExportError, ExportOptions, Format, Need};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "lcov",
    title: "Coverage of lines, functions and branch instructions",
    readers: "genhtml, Codecov, Coveralls, editors",
    needs: &[Need::Lines],
    write,
};

fn write(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    for (name, file) in &Coverage::with_lines(profile)?.files {
        writeln!(out, "TN:\nSF:{}", one_line(name))?;
        for (line, function) in file.functions.keys() {
            writeln!(out, "FN:{line},{}", lcov(function))?;
        }
        for ((_, function), counts) in &file.functions {
            writeln!(out, "FNDA:{},{}", counts.entries, lcov(function))?;
        }
        let entered = file.functions.values().filter(|counts| counts.entries > 0).count();
        writeln!(out, "FNF:{}\nFNH:{entered}", file.functions.len())?;
        let (mut last, mut number) = (0, 0);
        for (&(line, _), counts) in &file.branches {
            number = if line == last { number + 1 } else { 0 };
            last = line;
            for (way, count) in [(0, counts.taken), (1, counts.not_taken)] {
                match counts.is_executed() {
                    true => writeln!(out, "BRDA:{line},{number},{way},{count}")?,
                    false => writeln!(out, "BRDA:{line},{number},{way},-")?,
                }
            }
        }
        let (covered, all) = file.branch_sums();
        writeln!(out, "BRF:{all}\nBRH:{covered}")?;
        for (line, count) in &file.lines {
            writeln!(out, "DA:{line},{count}")?;
        }
        let (covered, all) = file.line_sums();
        writeln!(out, "LF:{all}\nLH:{covered}\nend_of_record")?;
    }
    Ok(())
}
