//! The reference flow's encoder input: one line for each cycle, in the single-instruction form.
//!
//! ```text
//! itype_0,cause,tval,priv,iaddr_0,context,ctype,iretire_0,ilastsize_0
//! 4,0,0,3,8000005a,0,0,1,0
//! ```

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{Block, Ctype, Itype};

/// A line that is no ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// Line number, from 1.
    pub line: u32,
    /// What is wrong, and what was expected.
    pub reason: String,
}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl core::error::Error for CsvError {}

#[derive(Clone, Copy, Debug)]
enum Column {
    Itype(usize),
    Iaddr(usize),
    Iretire(usize),
    Ilastsize(usize),
    Sijump(usize),
    Cause,
    Tval,
    Privilege,
    Context,
    Ctype,
    Time,
    Ignored,
}

/// Most block groups in one line.
const GROUPS: usize = 16;

/// Reads lines; the first names the columns.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    columns: Vec<Column>,
    line: u32,
}

impl Reader {
    /// A reader before its first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one line; blocks of one cycle are given oldest first.
    pub fn line(&mut self, line: &str, sink: &mut impl FnMut(Block)) -> Result<(), CsvError> {
        self.line += 1;
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if self.columns.is_empty() {
            self.columns = line.split(',').map(|name| column(name.trim())).collect();
            return Ok(());
        }
        self.cycle(line, sink).map_err(|reason| CsvError { line: self.line, reason })
    }

    fn cycle(&self, line: &str, sink: &mut impl FnMut(Block)) -> Result<(), String> {
        let (mut common, mut groups) = (Block { cycles: 1, ..Block::default() }, [Block::default(); GROUPS]);
        let mut found = 0;
        for (column, text) in self.columns.iter().zip(line.split(',').map(str::trim)) {
            found += 1;
            match *column {
                Column::Itype(group) => {
                    let code = number(text, 10)?;
                    let itype = u8::try_from(code).ok().and_then(Itype::from_code);
                    groups[group].itype = itype.ok_or_else(|| alloc::format!("itype {code} is reserved"))?;
                }
                Column::Iaddr(group) => groups[group].iaddr = number(text, 16)?,
                Column::Iretire(group) => groups[group].iretire = number(text, 10)?.min(1) as u32,
                Column::Ilastsize(group) => groups[group].ilastsize = number(text, 10)?.min(3) as u8,
                Column::Sijump(group) => groups[group].sijump = number(text, 10)? != 0,
                Column::Cause => common.cause = number(text, 10)?,
                Column::Tval => common.tval = number(text, 16)?,
                Column::Privilege => common.privilege = number(text, 10)? as u8,
                Column::Context => common.context = number(text, 16)?,
                Column::Time => common.time = number(text, 10)?,
                Column::Ctype => common.ctype = ctype(number(text, 10)?)?,
                Column::Ignored => {}
            }
        }
        if found < self.columns.len() {
            return Err(alloc::format!("expected {} values, found {found}", self.columns.len()));
        }
        for group in groups {
            if group.iretire == 0 && group.itype == Itype::None {
                continue;
            }
            let half_words = group.iretire << group.ilastsize;
            let Block { iaddr, itype, ilastsize, sijump, .. } = group;
            sink(Block { iaddr, itype, ilastsize, sijump, iretire: half_words, ..common });
            common.cycles = 0;
        }
        Ok(())
    }
}

/// Reads a whole file.
pub fn parse(text: &str) -> Result<Vec<Block>, CsvError> {
    let (mut reader, mut blocks) = (Reader::new(), Vec::new());
    for line in text.lines() {
        reader.line(line, &mut |block| blocks.push(block))?;
    }
    Ok(blocks)
}

fn column(name: &str) -> Column {
    let (base, group) = match name.rsplit_once('_') {
        Some((base, digits)) => match digits.parse::<usize>() {
            Ok(group) => (base, group),
            Err(_) => (name, 0),
        },
        None => (name, 0),
    };
    match base {
        _ if group >= GROUPS => Column::Ignored,
        "itype" => Column::Itype(group),
        "iaddr" => Column::Iaddr(group),
        "iretire" => Column::Iretire(group),
        "ilastsize" => Column::Ilastsize(group),
        "sijump" => Column::Sijump(group),
        "cause" => Column::Cause,
        "tval" => Column::Tval,
        "priv" => Column::Privilege,
        "context" => Column::Context,
        "ctype" => Column::Ctype,
        "time" => Column::Time,
        _ => Column::Ignored,
    }
}

fn number(text: &str, base: u32) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, base).map_err(|_| alloc::format!("expected a number, found `{text}`"))
}

fn ctype(value: u64) -> Result<Ctype, String> {
    match value {
        0 => Ok(Ctype::Unreported),
        1 => Ok(Ctype::Imprecise),
        2 => Ok(Ctype::Precise),
        3 => Ok(Ctype::AsynchronousDiscontinuity),
        _ => Err(alloc::format!("ctype is {value}, expected 0 to 3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_line_is_one_instruction_or_a_trap_without_one() {
        let text = "itype_0,cause,tval,priv,iaddr_0,context,ctype,iretire_0,ilastsize_0\n\
                    4,0,0,3,8000005a,0,0,1,0\n1,2,0,3,8000005c,0,0,0,1\n";
        let blocks = parse(text).unwrap();
        assert_eq!((blocks[0].itype, blocks[0].iretire, blocks[0].end()), (Itype::NotTaken, 1, 0x8000_005C));
        assert_eq!((blocks[1].itype, blocks[1].iretire, blocks[1].cause), (Itype::Exception, 0, 2));
    }

    #[test]
    fn several_groups_of_one_line_come_oldest_first() {
        let text = "itype_0,iaddr_0,iretire_0,ilastsize_0,itype_1,iaddr_1,iretire_1,ilastsize_1,priv\n\
                    5,100,1,1,4,200,1,0,1\n0,300,1,1,0,0,0,0,1\n";
        let blocks = parse(text).unwrap();
        let addresses: Vec<_> = blocks.iter().map(|block| (block.iaddr, block.cycles)).collect();
        assert_eq!(addresses, [(0x100, 1), (0x200, 0), (0x300, 1)]);
    }

    #[test]
    fn faults_name_their_line() {
        assert_eq!(parse("itype_0\n7").unwrap_err().to_string(), "line 2: itype 7 is reserved");
        assert_eq!(parse("priv\nx").unwrap_err().to_string(), "line 2: expected a number, found `x`");
        assert_eq!(parse("priv,time\n1").unwrap_err().line, 2);
    }
}
