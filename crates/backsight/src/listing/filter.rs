//! Which part of the execution is wanted.

use std::ops::Range;

use backsight_core::Address;
use backsight_flow::Event;
use backsight_image::Image;

use crate::{Error, Result};

/// Which part of the execution to list. What is left empty takes everything.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    /// Instructions at these addresses.
    pub ranges: Vec<Range<u64>>,
    /// Instructions of these functions.
    pub functions: Vec<String>,
    /// What ran with these context IDs.
    pub contexts: Vec<u64>,
    /// What ran between these timestamps.
    pub time: Option<Range<u64>>,
}

/// A filter, and what it has to remember of the execution.
#[derive(Clone, Debug)]
pub struct Filter {
    /// No address is unwanted.
    anywhere: bool,
    addresses: Vec<Range<u64>>,
    contexts: Vec<u64>,
    time: Option<Range<u64>>,
    now: Option<u64>,
    context: Option<u64>,
}

impl Filter {
    /// Finds the functions in the image.
    ///
    /// # Errors
    /// If one is not there.
    pub fn new(options: &FilterOptions, image: &Image) -> Result<Self> {
        let mut addresses = options.ranges.clone();
        for name in &options.functions {
            let before = addresses.len();
            for function in image.functions() {
                if function.name == name || function.mangled == name {
                    addresses.push(function.start.0..function.start.0.saturating_add(function.size.max(1)));
                }
            }
            if addresses.len() == before {
                return Err(Error::Absent(format!(
                    "function {name}: the image has no function of that name"
                )));
            }
        }
        Ok(Self {
            anywhere: options.ranges.is_empty() && options.functions.is_empty(),
            addresses,
            contexts: options.contexts.clone(),
            time: options.time.clone(),
            now: None,
            context: None,
        })
    }

    /// Takes note of an event, and says whether it is wanted.
    pub fn wants(&mut self, event: &Event) -> bool {
        match event {
            Event::Timestamp { value, .. } => self.now = Some(*value),
            Event::Context(context, _) => self.context = context.context_id,
            _ => {}
        }
        let in_time = self.time.as_ref().is_none_or(|time| self.now.is_some_and(|now| time.contains(&now)));
        let in_context =
            self.contexts.is_empty() || self.context.is_some_and(|context| self.contexts.contains(&context));
        let at_place = match event {
            Event::Range(range) => self.overlaps(range.start.0, range.end.0),
            Event::PathUnknown { start: Some(address), .. }
            | Event::PathUnknown { next: address, .. }
            | Event::UncountedLoop { address }
            | Event::NoMemory { address, .. }
            | Event::Mismatch { address, .. } => self.wants_address(*address),
            Event::Exception { return_address: Some(address), .. } => self.wants_address(*address),
            _ => self.anywhere,
        };
        in_time && in_context && at_place
    }

    /// Is this address wanted?
    pub fn wants_address(&self, address: Address) -> bool {
        self.anywhere || self.addresses.iter().any(|range| range.contains(&address.0))
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.anywhere || self.addresses.iter().any(|range| range.start < end && start < range.end)
    }
}
