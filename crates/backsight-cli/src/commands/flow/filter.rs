//! Which part of the execution is wanted.

use std::ops::Range;

use backsight_core::Address;
use backsight_flow::Event;
use backsight_image::Image;
use clap::Args;

use crate::args::{parse_number, parse_range};
use crate::failure::{Failure, Result};

/// Which part of the execution to list.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArgs {
    /// Only instructions at these addresses; may be given several times
    #[arg(long, value_name = "FROM..TO", help_heading = "Filters", value_parser = parse_range)]
    range: Vec<Range<u64>>,

    /// Only instructions of this function; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    function: Vec<String>,

    /// Only what ran with this context ID; may be given several times
    #[arg(long, value_name = "ID", help_heading = "Filters", value_parser = parse_number)]
    context: Vec<u64>,

    /// Only what ran between these timestamps
    #[arg(long, value_name = "FROM..TO", help_heading = "Filters", value_parser = parse_range)]
    time: Option<Range<u64>>,
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
    pub fn new(arguments: &FilterArgs, image: &Image) -> Result<Self> {
        let mut addresses = arguments.range.clone();
        for name in &arguments.function {
            let before = addresses.len();
            for function in image.functions() {
                if function.name == name || function.mangled == name {
                    addresses.push(function.start.0..function.start.0.saturating_add(function.size.max(1)));
                }
            }
            if addresses.len() == before {
                return Err(Failure::new(format!(
                    "--function {name}: the image has no function of that name"
                )));
            }
        }
        Ok(Self {
            anywhere: arguments.range.is_empty() && arguments.function.is_empty(),
            addresses,
            contexts: arguments.context.clone(),
            time: arguments.time.clone(),
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
