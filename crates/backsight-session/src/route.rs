//! The way of the trace: from every unit to the one sink.

use std::collections::{BTreeSet, HashSet, VecDeque};

use crate::system::{Connection, System};
use crate::{Error, Request};

/// The components that take part, and what each has to let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The trace units with their trace IDs.
    pub units: Vec<(usize, u8)>,
    /// Everything between units and sink, such that trace flows from earlier to later ones.
    pub links: Vec<usize>,
    /// Where the trace ends.
    pub sink: usize,
    /// The connections that trace flows through, with the component where each begins.
    pub connections: Vec<(usize, Connection)>,
}

/// The first trace ID that is given away.
const FIRST_ID: u8 = 0x10;
const LAST_ID: u8 = 0x6F;

impl Route {
    /// The route for a request.
    ///
    /// # Errors
    /// If components are not there, not connected, or ambiguous.
    pub fn new(system: &System, request: &Request) -> Result<Self, Error> {
        let units = units(system, request)?;
        let sink = sink(system, request, &units)?;
        let mut connections: Vec<(usize, Connection)> = Vec::new();
        let mut links: Vec<(usize, usize)> = Vec::new();
        let mut seen = HashSet::new();
        for &(unit, _) in &units {
            let path = path(system, unit, sink).ok_or_else(|| {
                let names = [unit, sink].map(|number| system.components[number].name.as_str());
                Error::of(names[0], format!("no trace can flow from it to {}", names[1]))
            })?;
            let length = path.len();
            for (place, (from, connection)) in path.into_iter().enumerate() {
                if seen.insert((from, connection.output)) {
                    if place > 0 {
                        links.push((from, length - place));
                    }
                    connections.push((from, connection));
                }
            }
        }
        // Every way is a shortest one: what is further from the sink is not fed by what is nearer.
        links.sort_by_key(|&(_, distance)| std::cmp::Reverse(distance));
        let links = links.into_iter().map(|(link, _)| link).collect();
        Ok(Self { units, links, sink, connections })
    }
}

/// The units that take part. Each gets a trace ID of its own.
fn units(system: &System, request: &Request) -> Result<Vec<(usize, u8)>, Error> {
    let mut wanted: Vec<(usize, Option<u8>)> = Vec::new();
    for (name, id) in &request.units {
        let number = system.named(name).ok_or_else(|| Error::of(name, "there is no such component"))?;
        if !system.components[number].kind.is_source() {
            return Err(Error::of(name, "it is no trace unit"));
        }
        if wanted.iter().any(|(other, _)| *other == number) {
            return Err(Error::of(name, "it is named twice"));
        }
        wanted.push((number, *id));
    }
    if wanted.is_empty() {
        let all = (0..).zip(&system.components).filter(|(_, component)| component.kind.is_source());
        wanted = all.map(|(number, _)| (number, None)).collect();
    }
    if wanted.is_empty() {
        return Err(Error::new("the system has no trace unit"));
    }
    let mut taken = BTreeSet::new();
    for (number, id) in wanted.iter().filter_map(|(number, id)| Some((*number, (*id)?))) {
        let name = &system.components[number].name;
        if !(1..=LAST_ID).contains(&id) {
            return Err(Error::of(name, format!("trace ID {id:#x}: 0x1 to {LAST_ID:#x} is possible")));
        }
        if !taken.insert(id) {
            return Err(Error::of(name, format!("trace ID {id:#x} is that of another trace unit too")));
        }
    }
    let give = |(number, id): (usize, Option<u8>)| {
        let id = match id {
            Some(id) => id,
            None => (FIRST_ID..=LAST_ID)
                .find(|id| taken.insert(*id))
                .ok_or_else(|| Error::new("there are not enough trace IDs"))?,
        };
        Ok((number, id))
    };
    wanted.into_iter().map(give).collect()
}

/// The one place where all trace can end: an ETF counts only where it is named, as it also passes trace on.
fn sink(system: &System, request: &Request, units: &[(usize, u8)]) -> Result<usize, Error> {
    if let Some(name) = &request.sink {
        let number = system.named(name).ok_or_else(|| Error::of(name, "there is no such component"))?;
        let kind = system.components[number].kind;
        return match kind.is_sink() {
            true => Ok(number),
            false => Err(Error::of(name, format!("trace cannot end at a component of kind {}", kind.name()))),
        };
    }
    let ends = |number: &usize| {
        let component = &system.components[*number];
        component.kind.is_sink()
            && component.outputs.is_empty()
            && units.iter().all(|(unit, _)| path(system, *unit, *number).is_some())
    };
    let sinks: Vec<_> = (0..system.components.len()).filter(ends).collect();
    match sinks[..] {
        [sink] => Ok(sink),
        [] => Err(Error::new("there is no component that the trace of all these units can flow to")),
        _ => {
            let names: Vec<_> = sinks.iter().map(|&sink| system.components[sink].name.as_str()).collect();
            Err(Error::new(format!("trace can flow to {}: say which is the sink", names.join(" and to "))))
        }
    }
}

/// The shortest way from one component to another.
fn path(system: &System, from: usize, to: usize) -> Option<Vec<(usize, Connection)>> {
    let mut came_by: Vec<Option<(usize, &Connection)>> = vec![None; system.components.len()];
    let mut reached = VecDeque::from([from]);
    while let Some(at) = reached.pop_front() {
        if at == to {
            let mut way = Vec::new();
            let mut end = to;
            while let Some((previous, connection)) = came_by[end].filter(|_| end != from) {
                way.push((previous, connection.clone()));
                end = previous;
            }
            way.reverse();
            return Some(way);
        }
        for connection in &system.components[at].outputs {
            if connection.to != from && came_by[connection.to].is_none() {
                came_by[connection.to] = Some((at, connection));
                reached.push_back(connection.to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "[a]\nkind=etm4\naddress=0x1000\nout=funnel:1\n\
        [b]\nkind=etm4\naddress=0x2000\nout=funnel:4\n\
        [c]\nkind=etm4\naddress=0x3000\n\
        [funnel]\nkind=funnel\naddress=0x4000\nout=etf\n\
        [etf]\nkind=etf\naddress=0x5000\nout=replicator\n\
        [replicator]\nkind=replicator\nout0=tpiu\nout1=etr\n\
        [tpiu]\nkind=tpiu\naddress=0x7000\n\
        [etr]\nkind=etr\naddress=0x8000\n";

    fn route(units: &[(&str, Option<u8>)], sink: Option<&str>) -> Result<Route, Error> {
        let system = System::parse("s.ini", SYSTEM).unwrap();
        let units = units.iter().map(|(name, id)| (name.to_string(), *id)).collect();
        Route::new(&system, &Request { units, sink: sink.map(str::to_owned), ..Request::default() })
    }

    #[test]
    fn trace_takes_the_one_way_to_its_sink() {
        let route = route(&[("b", Some(0x10)), ("a", None)], Some("etr")).unwrap();
        assert_eq!((route.units, route.links, route.sink), (vec![(1, 0x10), (0, 0x11)], vec![3, 4, 5], 7));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (units, sink, expected) in [
            (&[("a", None)][..], None, "tpiu and to etr: say which is the sink"),
            (&[], Some("etr"), "c: no trace can flow from it to etr"),
            (&[("c", None)], None, "there is no component that the trace"),
            (&[("a", Some(0x20)), ("b", Some(0x20))], Some("etr"), "trace ID 0x20 is that of another"),
            (&[("a", Some(0x70))], Some("etr"), "0x1 to 0x6f"),
            (&[("a", None), ("A", None)], Some("etr"), "named twice"),
            (&[("funnel", None)], Some("etr"), "no trace unit"),
            (&[("d", None)], Some("etr"), "no such component"),
            (&[("a", None)], Some("funnel"), "cannot end at a component of kind funnel"),
        ] {
            let refused = route(units, sink).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn a_loop_of_components_ends_the_search() {
        let system = "[a]\nkind=etm4\naddress=0x1000\nout=f:0\n[f]\nkind=funnel\nout=g:0\n\
            [g]\nkind=funnel\nout=f:1\n[etb]\nkind=etb\naddress=0x2000\n";
        let system = System::parse("s.ini", system).unwrap();
        assert!(Route::new(&system, &Request::default()).is_err());
    }
}
