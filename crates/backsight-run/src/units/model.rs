//! A trace unit at a core whose caches and branch predictor are modelled: it writes their events, and counts their cycles.

use std::fmt;

use backsight_core::{Access, Address, Execution, Retired, Trap};
use backsight_unit::etm4::Unit;
use backsight_unit::model::{CoreModel, MODEL_EVENTS};

use super::TraceUnit;

/// An instruction that caused events: the truth beside event packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCause {
    /// How many instructions of its thread came before it.
    pub instruction: u64,
    /// Where it is.
    pub address: Address,
    /// The events: bit i for event i of the model.
    pub events: u8,
    /// The cycle in which it retired.
    pub cycle: u64,
}

impl EventCause {
    /// The first line of a file of causes.
    pub const HEADER: &str = "thread,instruction,address,cycle,event,name";

    /// A line for each event, for a file.
    pub fn lines(self, thread: u32) -> impl fmt::Display {
        struct Lines(u32, EventCause);
        impl fmt::Display for Lines {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self(thread, EventCause { instruction, address, events, cycle }) = self;
                for (number, name) in MODEL_EVENTS.iter().enumerate() {
                    if events >> number & 1 == 1 {
                        writeln!(f, "{thread},{instruction},{:#x},{cycle},{number},{name}", address.0)?;
                    }
                }
                Ok(())
            }
        }
        Lines(thread, self)
    }
}

/// A unit and the model of its core.
pub(super) struct ModelledUnit {
    unit: Unit,
    core: CoreModel,
    /// The last instruction: its accesses come after it.
    last: Option<Retired>,
    accesses: Vec<Access>,
    instructions: u64,
    causes: Vec<EventCause>,
}

impl ModelledUnit {
    pub fn new(unit: Unit, core: CoreModel) -> Self {
        Self { unit, core, last: None, accesses: Vec::new(), instructions: 0, causes: Vec::new() }
    }

    /// The last instruction is complete.
    fn retire(&mut self, out: &mut Vec<u8>) {
        let Some(retired) = self.last.take() else { return };
        let outcome = self.core.retire(&retired, &self.accesses);
        self.accesses.clear();
        if outcome.events != 0 {
            let (instruction, address) = (self.instructions, retired.address);
            self.causes.push(EventCause {
                instruction,
                address,
                events: outcome.events,
                cycle: outcome.cycle,
            });
        }
        self.instructions += 1;
        while let Some(events) = self.core.arrived() {
            self.unit.signal(events);
        }
        self.unit.push(Execution::Instruction(Retired { cycle: outcome.cycle, ..retired }), out);
    }
}

impl TraceUnit for ModelledUnit {
    fn push(&mut self, items: &[Execution], out: &mut Vec<u8>) {
        for item in items {
            match *item {
                Execution::Access(access) if self.last.is_some() => self.accesses.push(access),
                Execution::Access(_) | Execution::Input(_) => {}
                Execution::Instruction(retired) => {
                    self.retire(out);
                    self.last = Some(retired);
                }
                Execution::Trap(trap) => {
                    self.retire(out);
                    let cycle = self.core.cycle();
                    self.unit.push(Execution::Trap(Trap { cycle, ..trap }), out);
                }
                other => {
                    self.retire(out);
                    self.unit.push(other, out);
                }
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.retire(out);
        self.unit.finish(out);
    }

    fn take_causes(&mut self) -> Vec<EventCause> {
        std::mem::take(&mut self.causes)
    }
}
