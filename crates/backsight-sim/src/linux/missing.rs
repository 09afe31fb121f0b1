//! What a program asked for and the kernel does not have.

use super::errno::Errno;
use super::numbers;
use std::collections::BTreeMap;
use std::fmt;

/// Something that a program asked for and the simulator does not have; it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it is: the name of a system call, or a part of one.
    pub name: String,
    /// How often it was asked for.
    pub count: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { "once".to_owned() } else { format!("{} times", self.count) };
        write!(f, "the simulator does not have {}: it failed ({times}); use --qemu", self.name)
    }
}

/// Numbers that are kept apart: more than Linux has.
const MOST: usize = 1024;

/// Counts what is missing.
#[derive(Default)]
pub struct MissingCalls {
    numbers: BTreeMap<u64, u64>,
    features: BTreeMap<&'static str, u64>,
}

impl MissingCalls {
    /// A system call that is not there.
    pub fn call(&mut self, number: u64) -> Errno {
        if self.numbers.len() >= MOST && !self.numbers.contains_key(&number) {
            return self.feature("system calls of yet other numbers");
        }
        *self.numbers.entry(number).or_default() += 1;
        Errno::NOSYS
    }

    /// A system call is there, but not what it was asked for.
    pub fn feature(&mut self, name: &'static str) -> Errno {
        *self.features.entry(name).or_default() += 1;
        Errno::NOSYS
    }

    /// The numbers of system calls that are not there.
    pub fn numbers(&self) -> &BTreeMap<u64, u64> {
        &self.numbers
    }

    /// All of it.
    pub fn list(&self) -> Vec<Missing> {
        let calls = self.numbers.iter().map(|(&number, &count)| Missing {
            name: match numbers::name(number) {
                Some(name) => format!("the system call {name}"),
                None => format!("system call {number}"),
            },
            count,
        });
        let features = self.features.iter().map(|(&name, &count)| Missing { name: name.to_owned(), count });
        calls.chain(features).collect()
    }
}
