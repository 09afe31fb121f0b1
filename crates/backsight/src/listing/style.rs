//! How execution is listed.

use backsight_image::{Naming, Symbol};

/// The form of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionFormat {
    /// One line a range, to read.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// The listing that users of OpenCSD know.
    Opencsd,
    /// One address a line: every instruction.
    Pcs,
    /// A Tarmac log, of Arm.
    Tarmac,
}

/// How much of it is listed, as text or as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One line a range.
    #[default]
    Ranges,
    /// And every instruction below its range.
    Instructions,
    /// One line for each stay in a function, by how deep the calls are.
    Calls,
    /// At the end, what each function cost, by who called it.
    CallTree,
}

/// How to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The format.
    pub format: ExecutionFormat,
    /// How much.
    pub detail: Detail,
    /// The trace unit counted cycles: timestamps of the familiar listing then show a count.
    pub cycle_counts: bool,
    /// Name the buffer in each JSON object: there are several.
    pub name_buffers: bool,
    /// How functions are named.
    pub naming: Naming,
    /// The line of source of every instruction, where instructions are listed.
    pub source_lines: bool,
}

impl Style {
    /// The name of a function.
    pub(super) fn name_of<'s>(&self, symbol: &Symbol<'s>) -> &'s str {
        match self.naming {
            Naming::Demangled => symbol.name,
            Naming::Mangled => symbol.mangled,
        }
    }
}
