//! Cobertura's XML, which build servers show.

use std::io::Write;

use super::coverage::{BranchCoverage, FileCoverage};
use super::names::xml;
use super::{Coverage, ExportError, ExportOptions, Format, Need};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "cobertura",
    title: "Coverage of lines and branch instructions, XML",
    readers: "GitLab, Jenkins, Azure",
    needs: &[Need::Lines],
    write,
};

fn rate((covered, all): (u64, u64)) -> f64 {
    if all == 0 { 1.0 } else { covered as f64 / all as f64 }
}

fn write(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let coverage = Coverage::with_lines(profile)?;
    let sum = |sums: fn(&FileCoverage) -> (u64, u64)| {
        coverage.files.values().map(sums).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    };
    let (lines, branches) = (sum(FileCoverage::line_sums), sum(FileCoverage::branch_sums));
    writeln!(out, "<?xml version=\"1.0\" ?>")?;
    writeln!(out, "<!DOCTYPE coverage SYSTEM \"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">")?;
    writeln!(
        out,
        "<coverage line-rate=\"{:.4}\" branch-rate=\"{:.4}\" lines-covered=\"{}\" lines-valid=\"{}\" branches-covered=\"{}\" branches-valid=\"{}\" complexity=\"0\" version=\"backsight\" timestamp=\"0\">",
        rate(lines),
        rate(branches),
        lines.0,
        lines.1,
        branches.0,
        branches.1
    )?;
    writeln!(out, "<sources><source>/</source></sources>\n<packages>")?;
    writeln!(
        out,
        "<package name=\"all\" line-rate=\"{:.4}\" branch-rate=\"{:.4}\" complexity=\"0\">\n<classes>",
        rate(lines),
        rate(branches)
    )?;
    for (name, file) in &coverage.files {
        write_file(name, file, out)?;
    }
    Ok(writeln!(out, "</classes>\n</package>\n</packages>\n</coverage>")?)
}

fn write_file(name: &str, file: &FileCoverage, out: &mut dyn Write) -> Result<(), ExportError> {
    let name = xml(name.trim_start_matches('/'));
    let (lines, branches) = (rate(file.line_sums()), rate(file.branch_sums()));
    writeln!(
        out,
        "<class name=\"{name}\" filename=\"{name}\" line-rate=\"{lines:.4}\" branch-rate=\"{branches:.4}\" complexity=\"0\">\n<methods/>\n<lines>"
    )?;
    for (&line, hits) in &file.lines {
        let on_line = || file.branches.range((line, 0)..=(line, u64::MAX)).map(|(_, counts)| counts);
        let all = 2 * on_line().count() as u64;
        if all == 0 {
            writeln!(out, "<line number=\"{line}\" hits=\"{hits}\" branch=\"false\"/>")?;
            continue;
        }
        let covered: u64 = on_line().map(BranchCoverage::covered).sum();
        writeln!(
            out,
            "<line number=\"{line}\" hits=\"{hits}\" branch=\"true\" condition-coverage=\"{}% ({covered}/{all})\"/>",
            covered * 100 / all
        )?;
    }
    Ok(writeln!(out, "</lines>\n</class>")?)
}
