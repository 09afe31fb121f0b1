//! E-Trace of several harts: a follower for each.

use std::collections::BTreeMap;

use backsight_core::Located;
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{Event, Statistics};
use backsight_image::Image;

use crate::etrace_stream::Found;

/// Most harts that are told apart: more are a sign of a wrong framing.
const MOST_HARTS: usize = 1024;

/// Followers of all harts of a stream.
pub struct Harts<'i> {
    /// What a new hart's follower is made from.
    settings: Settings,
    image: &'i Image,
    followers: Vec<Follower<'i, Image>>,
    places: BTreeMap<u16, usize>,
    /// The hart of the packet before and its place: it is most often that of the next, too.
    latest: Option<(u16, usize)>,
}

impl<'i> Harts<'i> {
    /// No hart was seen yet.
    pub fn new(settings: Settings, image: &'i Image) -> Self {
        Self { settings, image, followers: Vec::new(), places: BTreeMap::new(), latest: None }
    }

    /// Takes what was found in the stream.
    #[inline]
    pub fn push(&mut self, found: Located<Found>, sink: &mut impl FnMut(Located<Event>)) {
        match found.value {
            Found::Instruction { source, packet, .. } => {
                if let Some(follower) = self.of(source) {
                    follower
                        .push(Located { offset: found.offset, length: found.length, value: packet }, sink);
                }
            }
            Found::BadPacket(_) | Found::BadFrame(_) => {
                let place = Located { offset: found.offset, length: found.length, value: () };
                self.followers.iter_mut().for_each(|follower| follower.push_bad(place, sink));
            }
            Found::Data { .. } | Found::BadData(_) | Found::Other(..) | Found::Null => {}
        }
    }

    #[inline]
    fn of(&mut self, hart: u16) -> Option<&mut Follower<'i, Image>> {
        match self.latest {
            Some((latest, place)) if latest == hart => self.followers.get_mut(place),
            _ => self.another(hart),
        }
    }

    fn another(&mut self, hart: u16) -> Option<&mut Follower<'i, Image>> {
        if !self.places.contains_key(&hart) {
            if self.places.len() == MOST_HARTS {
                return None;
            }
            self.places.insert(hart, self.followers.len());
            self.followers.push(Follower::new(self.settings.clone(), self.image));
        }
        let place = *self.places.get(&hart)?;
        self.latest = Some((hart, place));
        self.followers.get_mut(place)
    }

    /// The stream ends, or does not continue.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Event>)) {
        self.followers.iter_mut().for_each(|follower| follower.finish(sink));
    }

    /// What was counted.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.followers.iter().for_each(|follower| sum += *follower.statistics());
        sum
    }

    /// What a user should know about the result.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.followers.iter().any(Follower::is_unreliable) {
            notes.push(
                "returns were left out of the trace and only their depth is told (irdepth): execution behind them \
                 may be wrong without notice"
                    .to_owned(),
            );
        }
        for fault in Fault::ALL {
            let count: u64 = self.followers.iter().map(|follower| follower.faults().of(fault)).sum();
            if count > 0 {
                let advice = match fault {
                    Fault::HandlerUnknown => ": --config trap_base=ADDRESS says where handlers are",
                    _ => "",
                };
                notes.push(format!("{count} times {fault}{advice}"));
            }
        }
        notes
    }
}
