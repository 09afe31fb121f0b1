//! The sections of debug information, and the units that they are divided into, within a budget.
//!
//! Nothing here trusts a file: sections say themselves how large they will be once they are unpacked, and any number of units
//! may refer to the same tables, each of which would be read again for each of them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gimli::{
    Abbreviations, AbbreviationsCacheStrategy, AttributeValue, DebugAbbrevOffset, DebugLineOffset, Dwarf,
    Reader, ReaderOffset, Section as _, SectionId, Unit, UnitHeader, constants as dw,
};
use object::{Object, ObjectSection};

use crate::{Budget, OverBudget};

/// Memory for each byte of abbreviations, and of the tables of files before a line program.
const OF_ABBREVIATIONS: u64 = 48;
const OF_FILES: u64 = 160;
/// Memory for a unit.
const OF_UNIT: u64 = 1024;

/// What lines and functions are read from; the rest of the debug information is not.
fn is_needed(id: SectionId) -> bool {
    use SectionId as Id;
    matches!(
        id,
        Id::DebugAbbrev
            | Id::DebugAddr
            | Id::DebugInfo
            | Id::DebugLine
            | Id::DebugLineStr
            | Id::DebugRanges
            | Id::DebugRngLists
            | Id::DebugStr
            | Id::DebugStrOffsets
    )
}

/// The bytes of a section; none if there is no such section, or it cannot be unpacked.
pub(super) fn section<'d>(
    file: &object::File<'d>,
    id: SectionId,
    budget: &Budget,
) -> Result<Cow<'d, [u8]>, OverBudget> {
    let found = is_needed(id).then(|| file.section_by_name(id.name())).flatten();
    let Some(data) = found.and_then(|section| section.compressed_data().ok()) else {
        return Ok(Cow::default());
    };
    if data.format != object::CompressionFormat::None {
        budget.take(id.name(), data.uncompressed_size)?;
    }
    Ok(data.decompress().unwrap_or_default())
}

/// A unit, and where it begins.
pub(super) type PlacedUnit<R> = (usize, Unit<R>);

/// The units of the debug information. Those that cannot be read are left out.
pub(super) fn units<R: Reader<Offset = usize>>(
    dwarf: &mut Dwarf<R>,
    budget: &Budget,
) -> Result<Vec<PlacedUnit<R>>, OverBudget> {
    const WHAT: &str = "the units of the debug information";
    let mut tables = BTreeSet::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        budget.take(WHAT, OF_UNIT)?;
        let offset = header.debug_abbrev_offset();
        if tables.insert(offset.0) {
            let length = abbreviations_length(dwarf, offset).unwrap_or(0);
            budget.take(".debug_abbrev", length.saturating_mul(OF_ABBREVIATIONS))?;
        }
    }
    // Each table once, whatever number of units it is for.
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::All);
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let start = header.debug_info_offset().map_or(0, |offset| offset.0);
        let Ok(abbreviations) = dwarf.abbreviations(&header) else { continue };
        if let Some(offset) = line_program(&header, &abbreviations, budget)? {
            let length = files_length(dwarf, offset).unwrap_or(0);
            budget.take("the files of a line program", length.saturating_mul(OF_FILES))?;
        }
        if let Ok(unit) = Unit::new_with_abbreviations(dwarf, header, abbreviations) {
            units.push((start, unit));
        }
    }
    Ok(units)
}

/// How many bytes the abbreviations at an offset are.
fn abbreviations_length<R: Reader<Offset = usize>>(
    dwarf: &Dwarf<R>,
    offset: DebugAbbrevOffset,
) -> gimli::Result<u64> {
    let mut reader = dwarf.debug_abbrev.reader().clone();
    reader.skip(offset.0)?;
    let before = reader.len();
    while reader.read_uleb128().is_ok_and(|code| code != 0) {
        let (Ok(_tag), Ok(_children)) = (reader.read_uleb128(), reader.read_u8()) else { break };
        while let (Ok(name), Ok(form)) = (reader.read_uleb128(), reader.read_uleb128()) {
            if form == u64::from(dw::DW_FORM_implicit_const.0) {
                reader.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Ok((before - reader.len()) as u64)
}

/// Where the line program of a unit is.
fn line_program<R: Reader<Offset = usize>>(
    header: &UnitHeader<R>,
    abbreviations: &Abbreviations,
    budget: &Budget,
) -> Result<Option<DebugLineOffset>, OverBudget> {
    let mut cursor = header.entries(abbreviations);
    let Ok(Some(root)) = cursor.next_dfs() else { return Ok(None) };
    budget.take("the units of the debug information", OF_UNIT * root.attrs().len() as u64 / 16)?;
    Ok(match root.attr_value(dw::DW_AT_stmt_list) {
        Some(AttributeValue::DebugLineRef(offset)) => Some(offset),
        _ => None,
    })
}

/// How many bytes the header of a line program is: its files and folders.
fn files_length<R: Reader<Offset = usize>>(dwarf: &Dwarf<R>, offset: DebugLineOffset) -> gimli::Result<u64> {
    let mut reader = dwarf.debug_line.reader().clone();
    reader.skip(offset.0)?;
    let (length, format) = reader.read_initial_length()?;
    reader.truncate(length.min(reader.len()))?;
    if reader.read_u16()? >= 5 {
        reader.skip(2)?;
    }
    Ok(reader.read_length(format)?.min(reader.len()).into_u64())
}
