//! Which source is compared with which.

use std::collections::BTreeSet;

use backsight::Source;
use backsight::decode::{Decode, Execution};
use backsight::moments::Moments;
use backsight::steps;

use super::Diff;
use crate::failure::{Failure, Result};

/// What is compared.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The source of each side.
    pub sources: [Source; 2],
    /// The hart of each; `None` where there is but one.
    pub harts: [Option<u16>; 2],
}

/// All that is compared, and what is not.
#[derive(Debug, Default)]
pub struct Pairs {
    pub pairs: Vec<Pair>,
    /// What has no counterpart, in words.
    pub alone: Vec<String>,
}

impl Pairs {
    pub fn of(
        command: &Diff,
        decodes: &[Decode<'_, Execution>; 2],
        moments: &[Moments<'_>; 2],
    ) -> Result<Self> {
        let [one, other] = decodes.each_ref().map(Decode::sources);
        let [one, other]: [Vec<Source>; 2] = [one?, other?]
            .map(|sources| sources.into_iter().filter(|source| !is_of_messages(source)).collect());
        let mut found = Self::default();
        let ids = if command.capture.id.is_empty() { None } else { Some(&command.capture.id) };
        let chosen = match ids {
            Some(ids) => {
                let others = &command.other.other_id;
                let others = if others.is_empty() { ids } else { others };
                let of = |sources: &[Source], id: u64| {
                    sources.iter().find(|source| u64::from(source.id().get()) == id).cloned()
                };
                let pairs = ids
                    .iter()
                    .zip(others)
                    .map(|(&id, &other_id)| Some([of(&one, id)?, of(&other, other_id)?]));
                pairs.collect::<Option<Vec<_>>>().ok_or_else(|| {
                    Failure::usage(
                        "--id, --other-id: no such source of execution (`backsight info` lists them)",
                    )
                })?
            }
            None => found.all(&one, &other)?,
        };
        for sources in chosen {
            found.harts(command, sources, decodes, moments)?;
        }
        Ok(found)
    }

    /// By trace ID; where no ID is in both, in order.
    fn all(&mut self, one: &[Source], other: &[Source]) -> Result<Vec<[Source; 2]>> {
        let of_id = |source: &Source| other.iter().find(|another| another.id() == source.id());
        let by_id: Vec<_> =
            one.iter().filter_map(|source| Some([source.clone(), of_id(source)?.clone()])).collect();
        let is_unique = |sources: &[Source]| {
            let ids: BTreeSet<u8> = sources.iter().map(|source| source.id().get()).collect();
            ids.len() == sources.len()
        };
        if one.len() == other.len() && (by_id.len() < one.len() || !is_unique(one) || !is_unique(other)) {
            return Ok(one
                .iter()
                .cloned()
                .zip(other.iter().cloned())
                .map(|(one, other)| [one, other])
                .collect());
        }
        if by_id.is_empty() || !is_unique(one) || !is_unique(other) {
            let (one, other) = (one.len(), other.len());
            return Err(Failure::usage(format!(
                "the captures have {one} and {other} sources of execution: say which are compared, with --id and --other-id"
            )));
        }
        for (sources, which, others) in [(one, "first", other), (other, "second", one)] {
            let alone =
                sources.iter().filter(|source| others.iter().all(|another| another.id() != source.id()));
            let words = |source: &Source| {
                format!("source {} (ID {}) is only in the {which}", source.name(), source.id())
            };
            self.alone.extend(alone.map(words));
        }
        Ok(by_id)
    }

    /// The harts of two sources.
    fn harts(
        &mut self,
        command: &Diff,
        sources: [Source; 2],
        decodes: &[Decode<'_, Execution>; 2],
        moments: &[Moments<'_>; 2],
    ) -> Result {
        if let Some(hart) = command.hart {
            self.pairs.push(Pair { sources, harts: [Some(hart); 2] });
            return Ok(());
        }
        if sources.iter().all(|source| !source.numbers_harts()) {
            self.pairs.push(Pair { sources, harts: [None; 2] });
            return Ok(());
        }
        let harts = |side: usize| steps::harts(&moments[side], &decodes[side], &sources[side]);
        let [one, other] = [harts(0)?, harts(1)?];
        if one.len() <= 1 && other.len() <= 1 {
            let harts = [one, other].map(|harts| harts.first().copied());
            self.pairs.push(Pair { sources, harts });
            return Ok(());
        }
        for (harts, others, side) in [(&one, &other, 0), (&other, &one, 1)] {
            let which = ["first", "second"][side];
            let words = |hart: &u16| format!("{} is only in the {which}", sources[side].hart_name(*hart));
            self.alone.extend(harts.difference(others).map(words));
        }
        let both = one.intersection(&other).map(|&hart| [Some(hart); 2]);
        self.pairs.extend(both.map(|harts| Pair { sources: sources.clone(), harts }));
        Ok(())
    }
}

/// Messages are no execution.
fn is_of_messages(source: &Source) -> bool {
    source.protocol().is_none_or(|names| matches!(names.name, "itm" | "stm")) || !source.is_decoded()
}
