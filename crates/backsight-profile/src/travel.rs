//! Profiles as bytes, to be carried from those who counted them to those who add them up.
//!
//! Of files, only names travel and the functions that were executed: a reader that has the code gives a profile its files back.

use backsight::Capture;
use backsight::core::{Address, Cause};

use crate::module::Module;
use crate::profile::{Block, CallNode, Edge, EdgeKind, Function, Profile, Thread, ThreadPart};
use crate::wire::{LastInstruction, Reader, Writer};

/// The first bytes: what it is, and the version of the format.
const MAGIC: &[u8] = b"backsight profile 2\n";

const EDGE_KINDS: [EdgeKind; 10] = [
    EdgeKind::Sequence,
    EdgeKind::NotTaken,
    EdgeKind::Taken,
    EdgeKind::Jump,
    EdgeKind::Call,
    EdgeKind::IndirectJump,
    EdgeKind::IndirectCall,
    EdgeKind::Return,
    EdgeKind::Exception,
    EdgeKind::ExceptionReturn,
];

impl Profile {
    /// All that was counted, as bytes for [`Profile::from_bytes`]: `None` for profiles with calls over time, outcomes by path or
    /// events of the trace unit, which are counted for one output and do not travel.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let Self {
            modules,
            functions,
            blocks,
            edges,
            calls,
            threads,
            exceptions,
            paths,
            events,
            totals,
            code,
            stretches,
        } = self;
        let has_slices = threads.iter().any(|thread| !thread.slices.is_empty());
        if paths.is_some() || !events.is_empty() || has_slices || !stretches.is_empty() {
            return None;
        }
        let mut out = Writer { bytes: MAGIC.to_vec() };
        out.list(modules.iter(), |out, module| module.write(out));
        out.list(functions.iter(), |out, function| {
            out.number(function.module.into());
            out.optional(function.start);
            out.number(function.size);
            out.text(&function.name);
            out.text(&function.mangled);
            out.number(function.certain_cycles);
        });
        out.list(blocks.iter(), |out, block| {
            let (function, instructions) = (block.function.into(), block.instructions.into());
            out.numbers([function, block.start, block.end, block.memory_start.0, instructions]);
            let (isa, class, flags, size) = (block.isa, block.class, block.flags, block.last_size);
            out.last_instruction(LastInstruction { isa, class, flags, size });
            out.numbers([block.count, block.entries, block.cycles, block.certain_cycles]);
            out.bytes(code.get(block.code.clone()).unwrap_or_default());
        });
        out.list(edges.iter(), |out, edge| {
            out.numbers([edge.from.into(), edge.to.into()]);
            out.one_of(&EDGE_KINDS, edge.kind);
            out.number(edge.count);
        });
        out.list(calls.iter(), |out, node| {
            out.optional(node.function.map(u64::from));
            out.optional(node.parent.map(u64::from));
            out.numbers([node.calls, node.instructions, node.cycles]);
        });
        out.list(threads.iter(), |out, thread| {
            out.text(&thread.name);
            out.text(&thread.capture);
            out.number(thread.node.into());
            out.flag(thread.part.is_some());
            if let Some(ThreadPart { buffer, source, number, start }) = &thread.part {
                out.text(buffer);
                out.numbers([u64::from(*source), u64::from(*number), *start]);
            }
        });
        out.list(exceptions.iter(), |out, (cause, count)| {
            let (kind, number) = cause_numbers(*cause);
            out.numbers([kind, number, *count]);
        });
        out.numbers({ *totals }.all_mut().map(|total| *total));
        Some(out.bytes)
    }

    /// What [`Profile::to_bytes`] wrote; `None` if it is something else. Its files have no contents and no functions but those
    /// that were executed, until [`Profile::take_files_of`] finds them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC)?);
        let mut profile = Self { modules: reader.list(Module::read)?, ..Self::default() };
        profile.functions = reader.list(|reader| {
            Some(Function {
                module: reader.index(profile.modules.len())?,
                start: reader.optional(Reader::number)?,
                size: reader.number()?,
                name: reader.text()?,
                mangled: reader.text()?,
                entries: 0,
                instructions: 0,
                cycles: 0,
                certain_cycles: reader.number()?,
            })
        })?;
        let (functions, mut code) = (profile.functions.len(), Vec::new());
        profile.blocks = reader.list(|reader| read_block(reader, functions, &mut code))?;
        profile.code = code;
        let blocks = profile.blocks.len();
        profile.edges = reader.list(|reader| {
            let (from, to) = (reader.index(blocks)?, reader.index(blocks)?);
            Some(Edge { from, to, kind: reader.one_of(&EDGE_KINDS)?, count: reader.number()? })
        })?;
        let mut nodes = 0;
        profile.calls = reader.list(|reader| {
            let function = reader.optional(|reader| reader.index(functions))?;
            let parent = reader.optional(|reader| reader.index(nodes))?;
            nodes += 1;
            let (calls, instructions, cycles) = (reader.number()?, reader.number()?, reader.number()?);
            Some(CallNode { function, parent, calls, instructions, cycles })
        })?;
        profile.threads = reader.list(|reader| read_thread(reader, nodes))?;
        let exceptions = reader.list(|reader| {
            let cause = cause_of(reader.number()?, reader.number()?)?;
            Some((cause, reader.number()?))
        })?;
        profile.exceptions = exceptions.into_iter().collect();
        for total in profile.totals.all_mut() {
            *total = reader.number()?;
        }
        profile.count_functions();
        reader.is_at_end().then_some(profile)
    }

    /// Gives files that came without their contents what a capture has of them: lines, and functions that were not executed.
    /// Says whether there are others that lack theirs.
    ///
    /// # Errors
    /// If the code of the capture cannot be read.
    pub fn take_files_of(&mut self, capture: &Capture) -> backsight::Result<bool> {
        let image = capture.code()?.image();
        for module in self.modules.iter_mut().filter(|module| module.is_bare()) {
            if let Some(found) = image.modules().iter().find(|found| Module::named(found).is(module)) {
                *module = Module::of_image(image, found);
            }
        }
        Ok(self.modules.iter().any(Module::is_bare))
    }
}

fn read_block(reader: &mut Reader<'_>, functions: usize, code: &mut Vec<u8>) -> Option<Block> {
    let (function, start, end) = (reader.index(functions)?, reader.number()?, reader.number()?);
    let (memory_start, instructions) = (Address(reader.number()?), reader.narrow()?);
    let LastInstruction { isa, class, flags, size } = reader.last_instruction()?;
    let (count, entries) = (reader.number()?, reader.number()?);
    let (cycles, certain_cycles) = (reader.number()?, reader.number()?);
    let offset = code.len();
    code.extend_from_slice(reader.bytes()?);
    Some(Block {
        function,
        start,
        end,
        memory_start,
        isa,
        instructions,
        last_size: size,
        class,
        flags,
        count,
        entries,
        cycles,
        certain_cycles,
        code: offset..code.len(),
    })
}

fn read_thread(reader: &mut Reader<'_>, nodes: usize) -> Option<Thread> {
    let (name, capture, node) = (reader.text()?, reader.text()?, reader.index(nodes)?);
    let part = reader.optional(|reader| {
        let (buffer, source, number) = (reader.text()?, reader.narrow()?, reader.narrow()?);
        Some(ThreadPart { buffer, source, number, start: reader.number()? })
    })?;
    Some(Thread { name, capture, node, part, ..Thread::default() })
}

fn cause_numbers(cause: Cause) -> (u64, u64) {
    let kind = match cause {
        Cause::Arm(_) => 0,
        Cause::Armv7(_) => 1,
        Cause::ArmM(_) => 2,
        Cause::Riscv(_) => 3,
        Cause::RiscvInterrupt(_) => 4,
        Cause::NotTraced { interrupt } => return (5, interrupt.into()),
    };
    (kind, cause.number().into())
}

fn cause_of(kind: u64, number: u64) -> Option<Cause> {
    let (narrow, number) = (u16::try_from(number), u32::try_from(number).ok()?);
    Some(match kind {
        0 => Cause::Arm(narrow.ok()?),
        1 => Cause::Armv7(narrow.ok()?),
        2 => Cause::ArmM(narrow.ok()?),
        3 => Cause::Riscv(number),
        4 => Cause::RiscvInterrupt(number),
        5 => Cause::NotTraced { interrupt: number != 0 },
        _ => return None,
    })
}
