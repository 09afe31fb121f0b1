//! A checked session.

use crate::route::Route;
use crate::sequence::{self, RegisterAccess};
use crate::system::{Component, System};
use crate::target::Target;
use crate::{Error, Request, UnitConfig};

/// A session: how to start it, how to stop it, and what a decoder has to know of its trace.
#[derive(Clone, Debug)]
pub struct Session {
    /// The accesses that start it.
    pub start: Vec<RegisterAccess>,
    /// The accesses that stop it.
    pub stop: Vec<RegisterAccess>,
    /// The trace units that take part.
    pub units: Vec<TracedUnit>,
    /// Where the trace ends.
    pub sink: Component,
}

/// A trace unit of a session.
#[derive(Clone, Debug)]
pub struct TracedUnit {
    /// The unit.
    pub component: Component,
    /// Its trace ID.
    pub id: u8,
    /// What its registers hold after the start, as far as a decoder needs it.
    pub config: UnitConfig,
}

impl Session {
    /// The session for a request.
    ///
    /// # Errors
    /// If the system cannot do what is asked for; says which component, and what of it says so.
    pub fn new(system: &System, request: &Request) -> Result<Self, Error> {
        let route = Route::new(system, request)?;
        let start = sequence::start(system, &route, request)?;
        let stop = sequence::stop(system, &route);
        let mut target = Target::new(system);
        target.run(&start).map_err(|refused| Error::new(format!("starting: {refused}")))?;
        let traced = |&(number, id): &(usize, u8)| TracedUnit {
            component: system.components[number].clone(),
            id,
            config: target.config(number),
        };
        let units = route.units.iter().map(traced).collect();
        target.run(&stop).map_err(|refused| Error::new(format!("stopping: {refused}")))?;
        Ok(Self { start, stop, units, sink: system.components[route.sink].clone() })
    }
}
