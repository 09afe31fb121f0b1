//! Commit logs of simulators and cores as execution.
//!
//! Three kinds of lines are understood, also mixed: Spike's log (`core   0: 3 0x80000000 (0x00000297) ...`, with or
//! without the privilege, exceptions as `core   0: exception trap_illegal_instruction, epc 0x...`), RVFI traces in
//! the same form with `DASM(...)`, and the reference flow's CSV (`VALID,ADDRESS,INSN,PRIVILEGE,EXCEPTION,ECAUSE,
//! TVAL,INTERRUPT`). Logs do not say where an instruction went: the next line does.

use alloc::string::String;
use core::fmt;

use backsight_core::{Address, Context, Execution, Isa, Retired, Trap, TrapKind};
use backsight_isa::rv;

/// A line that is no commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// Line number, from 1.
    pub line: u32,
    /// What is wrong, and what was expected.
    pub reason: String,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl core::error::Error for LogError {}

#[derive(Clone, Copy, Debug)]
struct Commit {
    address: u64,
    opcode: u32,
    privilege: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Line {
    Commit(Commit),
    Trap {
        cause: u32,
        interrupt: bool,
        value: u64,
        epc: u64,
        privilege: Option<u8>,
    },
    /// Value of the trap before.
    Value(u64),
    Nothing,
}

/// Reads a log line by line.
#[derive(Clone, Debug)]
pub struct LogReader {
    isa: Isa,
    hart: u32,
    line: u32,
    /// Waits for where it goes.
    commit: Option<Commit>,
    /// Waits for where its handler is.
    trap: Option<Trap>,
    context: Option<Context>,
}

impl LogReader {
    /// Reads what `hart` did.
    pub fn new(isa: Isa, hart: u32) -> Self {
        Self { isa, hart, line: 0, commit: None, trap: None, context: None }
    }

    /// Reads one line.
    pub fn line(&mut self, line: &str, sink: &mut dyn FnMut(Execution)) -> Result<(), LogError> {
        self.line += 1;
        let parsed = parse(line, self.hart).map_err(|reason| LogError { line: self.line, reason })?;
        match parsed {
            Line::Commit(commit) => {
                self.arrive(commit.address, sink);
                self.enter(commit.privilege, sink);
                self.commit = Some(commit);
            }
            Line::Trap { cause, interrupt, value, epc, privilege } => {
                // Spike commits an instruction before it finds that it traps: `ecall` does not retire.
                if self.commit.is_some_and(|commit| commit.address == epc && !interrupt) {
                    self.commit = None;
                }
                self.arrive(epc, sink);
                if privilege.is_some() && self.context.is_none() {
                    self.enter(privilege, sink);
                }
                let kind = if interrupt { TrapKind::Interrupt } else { TrapKind::Exception };
                let return_address = Address(epc);
                self.trap = Some(Trap { kind, cause, value, return_address, handler: Address(0), cycle: 0 });
            }
            Line::Value(value) => {
                if let Some(trap) = &mut self.trap {
                    trap.value = value;
                }
            }
            Line::Nothing => {}
        }
        Ok(())
    }

    /// The log ends.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Execution)) {
        if let Some(commit) = &self.commit {
            let end = commit.address.wrapping_add(rv::size(commit.opcode as u16).into());
            self.arrive(end, sink);
        }
        if let Some(trap) = self.trap.take() {
            sink(Execution::Trap(trap));
        }
    }

    /// Execution is at `address`: what waited for it is complete.
    fn arrive(&mut self, address: u64, sink: &mut dyn FnMut(Execution)) {
        if let Some(mut trap) = self.trap.take() {
            trap.handler = Address(address);
            sink(Execution::Trap(trap));
        }
        let Some(commit) = self.commit.take() else { return };
        let size = rv::size(commit.opcode as u16);
        let set = if self.isa == Isa::Rv32 { rv::Set::RV32 } else { rv::Set::RV64 };
        let decoded = rv::decode(set, commit.opcode, Address(commit.address));
        let branch = decoded.operation == rv::Operation::Branch;
        let end = commit.address.wrapping_add(size.into());
        sink(Execution::Instruction(Retired {
            address: Address(commit.address),
            next: Address(address),
            cycle: 0,
            opcode: commit.opcode,
            size,
            isa: self.isa,
            taken: !branch || address != end,
        }));
    }

    fn enter(&mut self, privilege: Option<u8>, sink: &mut dyn FnMut(Execution)) {
        let level = privilege.unwrap_or(self.context.map_or(3, |context| context.level()));
        let context = Context::riscv(level, self.isa == Isa::Rv64);
        if self.context != Some(context) {
            self.context = Some(context);
            sink(Execution::Context(context));
        }
    }
}

fn parse(line: &str, hart: u32) -> Result<Line, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with("VALID") || line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    if let Some(rest) = line.strip_prefix("core") {
        let Some((number, rest)) = rest.split_once(':') else {
            return Err(alloc::format!("expected `core N: ...`, found `{line}`"));
        };
        return match number.trim().parse::<u32>() {
            Ok(number) if number == hart => text(rest.trim()),
            Ok(_) => Ok(Line::Nothing),
            Err(_) => Err(alloc::format!("expected the number of a core, found `{}`", number.trim())),
        };
    }
    if line.contains(',') {
        return csv(line);
    }
    Err(alloc::format!("expected `core N: ...` or comma-separated values, found `{line}`"))
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16)
        .map_err(|_| alloc::format!("expected a hexadecimal number, found `{}`", text.trim()))
}

fn text(rest: &str) -> Result<Line, String> {
    if let Some(exception) = rest.strip_prefix("exception") {
        let Some((name, epc)) = exception.split_once(", epc") else {
            return Err(alloc::format!("expected `exception NAME, epc ADDRESS`, found `{rest}`"));
        };
        let (cause, interrupt) = cause(name.trim())?;
        return Ok(Line::Trap { cause, interrupt, value: 0, epc: hexadecimal(epc)?, privilege: None });
    }
    if let Some(value) = rest.strip_prefix("tval") {
        return hexadecimal(value).map(Line::Value);
    }
    let mut words = rest.split_whitespace();
    let mut word = words.next().unwrap_or_default();
    let privilege = match word.parse::<u8>() {
        Ok(privilege) if !word.starts_with("0x") => {
            word = words.next().unwrap_or_default();
            Some(privilege)
        }
        _ => None,
    };
    let opcode = words.next().unwrap_or_default();
    match (word.strip_prefix("0x"), opcode.strip_prefix('(')) {
        (Some(_), Some(inner)) => Ok(Line::Commit(Commit {
            address: hexadecimal(word)?,
            opcode: hexadecimal(inner.trim_end_matches(')'))? as u32,
            privilege,
        })),
        // Spike names symbols and other things between instructions.
        _ => Ok(Line::Nothing),
    }
}

fn cause(name: &str) -> Result<(u32, bool), String> {
    if let Some(number) = name.strip_prefix("interrupt #") {
        let number = number.trim().parse().map_err(|_| alloc::format!("unknown interrupt `{name}`"))?;
        return Ok((number, true));
    }
    const NAMES: [(&str, u32); 18] = [
        ("trap_instruction_address_misaligned", 0),
        ("trap_instruction_access_fault", 1),
        ("trap_illegal_instruction", 2),
        ("trap_breakpoint", 3),
        ("trap_load_address_misaligned", 4),
        ("trap_load_access_fault", 5),
        ("trap_store_address_misaligned", 6),
        ("trap_store_access_fault", 7),
        ("trap_user_ecall", 8),
        ("trap_supervisor_ecall", 9),
        ("trap_virtual_supervisor_ecall", 10),
        ("trap_machine_ecall", 11),
        ("trap_instruction_page_fault", 12),
        ("trap_load_page_fault", 13),
        ("trap_store_page_fault", 15),
        ("trap_instruction_guest_page_fault", 20),
        ("trap_load_guest_page_fault", 21),
        ("trap_store_guest_page_fault", 23),
    ];
    match NAMES.iter().find(|(known, _)| *known == name) {
        Some((_, cause)) => Ok((*cause, false)),
        None => Err(alloc::format!("unknown exception `{name}`")),
    }
}

fn csv(line: &str) -> Result<Line, String> {
    let mut cells = line.split(',');
    let mut cell = || cells.next().ok_or_else(|| alloc::format!("expected 8 values, found `{line}`"));
    let valid = cell()?.trim() == "1";
    let address = hexadecimal(cell()?)?;
    let opcode = hexadecimal(cell()?)? as u32;
    let privilege = hexadecimal(cell()?)? as u8;
    let exception = cell()?.trim() == "1";
    let cause = hexadecimal(cell()?)? as u32;
    let value = hexadecimal(cell()?)?;
    let interrupt = cell()?.trim() == "1";
    Ok(match (valid, exception || interrupt) {
        (false, _) => Line::Nothing,
        (true, true) => Line::Trap { cause, interrupt, value, epc: address, privilege: Some(privilege) },
        (true, false) => Line::Commit(Commit { address, opcode, privilege: Some(privilege) }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn read(text: &str) -> Vec<Execution> {
        let (mut reader, mut out) = (LogReader::new(Isa::Rv64, 0), Vec::new());
        for line in text.lines() {
            reader.line(line, &mut |item| out.push(item)).unwrap();
        }
        reader.finish(&mut |item| out.push(item));
        out
    }

    fn listed(items: &[Execution]) -> Vec<String> {
        items
            .iter()
            .map(|item| match item {
                Execution::Instruction(r) => alloc::format!("{:x}->{:x} {}", r.address, r.next, r.taken),
                Execution::Trap(t) => alloc::format!(
                    "trap {} {:x} at {:x} to {:x}",
                    t.cause,
                    t.value,
                    t.return_address,
                    t.handler
                ),
                Execution::Context(c) => alloc::format!("level {}", c.level()),
                other => alloc::format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_log_of_spike_with_privileges_and_an_exception() {
        let text = "core   0: 3 0x0000000080000000 (0x00028463) \n\
                    core   1: 3 0x0000000090000000 (0x00000013)\n\
                    core   0: >>>>  main\n\
                    core   0: 3 0x0000000080000008 (0x0001)\n\
                    core   0: exception trap_illegal_instruction, epc 0x000000008000000a\n\
                    core   0:           tval 0x0000000000000042\n\
                    core   0: 3 0x0000000080000100 (0x00000013) x0 0x0\n";
        assert_eq!(
            listed(&read(text)),
            [
                "level 3",
                "80000000->80000008 true",
                "80000008->8000000a true",
                "trap 2 42 at 8000000a to 80000100",
                "80000100->80000104 true",
            ]
        );
    }

    #[test]
    fn an_instruction_that_traps_does_not_retire() {
        let text = "core   0: 0x0000000080000000 (0x00000073) ecall\n\
                    core   0: exception trap_machine_ecall, epc 0x0000000080000000\n\
                    core   0: 0x0000000080000200 (0x00000013) DASM(00000013)\n";
        assert_eq!(
            listed(&read(text)),
            ["level 3", "trap 11 0 at 80000000 to 80000200", "80000200->80000204 true"]
        );
    }

    #[test]
    fn the_csv_of_the_reference_flow_is_a_log_too() {
        let text = "VALID,ADDRESS,INSN,PRIVILEGE,EXCEPTION,ECAUSE,TVAL,INTERRUPT\n\
                    1,8000005a,c789,3,0,0,0,0\n1,8000005c,3a079073,3,1,2,0,0\n1,80000038,716d,3,0,2,0,0\n";
        assert_eq!(
            listed(&read(text)),
            [
                "level 3",
                "8000005a->8000005c false",
                "trap 2 0 at 8000005c to 80000038",
                "80000038->8000003a true"
            ]
        );
    }

    #[test]
    fn faults_name_their_line() {
        let mut reader = LogReader::new(Isa::Rv64, 0);
        assert!(reader.line("core 0: 3 0x10 (0x13)", &mut |_| {}).is_ok());
        let error = reader.line("nonsense", &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("line 2: expected `core N: ...`"));
        assert!(reader.line("core 0: exception what, epc 0x10", &mut |_| {}).is_err());
    }
}
