//! Table of loops, CSV.

use std::io::Write;

use super::names::csv as field;
use super::tables::place;
use super::{ExportError, ExportOptions, Format};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "loops",
    title: "Table of loops with their iterations, CSV",
    readers: "spreadsheets, scripts",
    needs: &[],
    write,
};

fn write(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    writeln!(
        out,
        "address,depth,blocks,entries,iterations,iterations_per_entry,irreducible,function,file,line"
    )?;
    for found in profile.loops() {
        let Some(header) = profile.blocks.get(found.header as usize) else { continue };
        let (function, file, line) = place(profile, header, found.address);
        writeln!(
            out,
            "{:#x},{},{},{},{},{:.2},{},{},{},{line}",
            found.address,
            found.depth,
            found.blocks.len(),
            found.entries,
            found.iterations,
            found.iterations_per_entry(),
            found.is_irreducible,
            field(&function),
            field(&file)
        )?;
    }
    Ok(())
}
