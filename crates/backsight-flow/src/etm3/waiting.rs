//! Transfers whose value comes late: an out-of-order placeholder opens one of three tags, and a value closes it.
//!
//! Both halves of a doubleword share a tag. A placeholder of another instruction on an open tag shows that the value of
//! the first will not come; so does a second I-sync, long after memory must have answered.

use crate::TracedAccess;

/// The transfers of each tag, the oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waiting([Tag; 3]);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tag {
    transfers: [Option<TracedAccess>; 2],
    /// The oldest waited at the last I-sync already.
    is_old: bool,
}

impl Waiting {
    fn tag(&mut self, tag: u8) -> Option<&mut Tag> {
        self.0.get_mut(usize::from(tag).wrapping_sub(1))
    }

    /// Does none wait? The oldest of a tag is the first to leave.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|tag| tag.transfers[0].is_none())
    }

    /// A transfer waits for its value; gives those that will get none any more.
    pub fn wait(&mut self, tag: u8, access: TracedAccess) -> impl Iterator<Item = TracedAccess> + use<> {
        let mut given_up = [None; 2];
        if let Some(tag) = self.tag(tag) {
            match &mut tag.transfers {
                [oldest @ None, _] => *oldest = Some(access),
                [Some(oldest), _] if oldest.instruction() != access.instruction() => {
                    given_up = std::mem::take(tag).transfers;
                    tag.transfers = [Some(access), None];
                }
                [Some(_), newest @ None] => *newest = Some(access),
                [oldest, newest] => {
                    given_up = [oldest.take(), None];
                    *oldest = newest.replace(access);
                }
            }
        }
        given_up.into_iter().flatten()
    }

    /// The transfer that waits for a value with this tag.
    pub fn take(&mut self, tag: u8) -> Option<TracedAccess> {
        let tag = self.tag(tag)?;
        let [oldest, newest] = tag.transfers;
        tag.transfers = [newest, None];
        tag.is_old &= newest.is_some();
        oldest
    }

    /// A periodic I-sync: gives the transfers that waited at the last one already.
    pub fn age(&mut self) -> impl Iterator<Item = TracedAccess> + use<> {
        let old = self.0.each_mut().map(|tag| {
            let given_up = if tag.is_old { std::mem::take(&mut tag.transfers) } else { [None; 2] };
            tag.is_old = tag.transfers[0].is_some();
            given_up
        });
        old.into_iter().flatten().flatten()
    }

    /// Values that have not come will not come: the transfers that wait for them, the oldest of each tag first.
    pub fn give_up(&mut self) -> impl Iterator<Item = TracedAccess> + use<> {
        std::mem::take(self).0.into_iter().flat_map(|tag| tag.transfers).flatten()
    }
}
