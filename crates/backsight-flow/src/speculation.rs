//! Elements that may not have happened.
//!
//! A processor runs ahead of what is certain, and its trace unit may too. It writes elements as they are
//! executed and says later what became of them: the oldest are committed, the newest are cancelled, and the
//! newest branch may turn out to have gone the other way. Only *P0* elements are counted; everything else
//! keeps its place between them.

use std::collections::VecDeque;

use backsight_core::Located;

/// What an element is to speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Counted by commit and cancel.
    P0,
    /// Belongs to the path: goes when the P0 element before it is cancelled.
    Path,
    /// Belongs to the path as its next address: goes also when the P0 element before it was mispredicted.
    Address,
    /// A record of something that happened whatever the path was: stays.
    Record,
}

/// An element that can be queued.
pub trait Speculative: Copy {
    /// What it is to speculation.
    fn role(&self) -> Role;

    /// A branch goes the other way. False: this element is no branch.
    fn mispredict(&mut self) -> bool;
}

/// More elements were resolved than there are, or more are waiting than can be: bytes were lost, or the
/// configuration is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// No hardware speculates this far. Beyond it the queue is an error, so that memory stays bounded.
const LIMIT: usize = 1 << 16;

/// Elements in the order of the trace, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue<T> {
    entries: VecDeque<Located<T>>,
    /// P0 elements in `entries`.
    seen: u32,
    /// P0 elements older than all entries, traced before decoding began. They absorb commits and cancels.
    unseen: u32,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), seen: 0, unseen: 0 }
    }
}

impl<T: Speculative> Queue<T> {
    /// Unresolved P0 elements.
    #[inline]
    pub fn depth(&self) -> u32 {
        self.seen.saturating_add(self.unseen)
    }

    /// Are there elements that were not given out?
    #[inline]
    pub fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// It can take no more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= LIMIT
    }

    /// P0 elements older than all that were pushed.
    pub fn unseen(&self) -> u32 {
        self.unseen
    }

    /// Begins with `unseen` P0 elements that were traced before.
    pub fn expect_unseen(&mut self, unseen: u32) {
        self.unseen = unseen;
    }

    /// Appends an element.
    ///
    /// # Errors
    /// The queue is full.
    #[inline]
    pub fn push(&mut self, element: Located<T>) -> Result<(), Overrun> {
        if self.is_full() {
            return Err(Overrun);
        }
        self.seen += u32::from(element.value.role() == Role::P0);
        self.entries.push_back(element);
        Ok(())
    }

    /// Gives the oldest elements to `sink`, up to and with the `count`-th P0 element.
    ///
    /// # Errors
    /// There are fewer. All that there were have been given.
    pub fn commit(&mut self, count: u32, sink: &mut impl FnMut(Located<T>)) -> Result<(), Overrun> {
        let unseen = count.min(self.unseen);
        self.unseen -= unseen;
        let mut missing = count - unseen;
        while missing > 0 {
            let element = self.entries.pop_front().ok_or(Overrun)?;
            if element.value.role() == Role::P0 {
                self.seen -= 1;
                missing -= 1;
            }
            sink(element);
        }
        Ok(())
    }

    /// Gives all elements before the oldest P0 element to `sink`.
    #[inline]
    pub fn release(&mut self, sink: &mut impl FnMut(Located<T>)) {
        if self.unseen > 0 {
            return;
        }
        while self.entries.front().is_some_and(|element| element.value.role() != Role::P0) {
            if let Some(element) = self.entries.pop_front() {
                sink(element);
            }
        }
    }

    /// Gives everything up to the newest element of a kind to `sink`, or nothing where there is none.
    pub fn release_through(&mut self, is: impl Fn(&T) -> bool, sink: &mut impl FnMut(Located<T>)) {
        let through = self.entries.iter().rposition(|element| is(&element.value)).map_or(0, |last| last + 1);
        for element in self.entries.drain(..through) {
            self.seen -= u32::from(element.value.role() == Role::P0);
            sink(element);
        }
    }

    /// Removes the newest `count` P0 elements, and what belongs to their path.
    ///
    /// # Errors
    /// There are fewer; all of them are gone.
    pub fn cancel(&mut self, count: u32) -> Result<(), Overrun> {
        let mut missing = count;
        let mut cut = self.entries.len();
        while missing > 0 && cut > 0 {
            cut -= 1;
            missing -= u32::from(self.entries[cut].value.role() == Role::P0);
        }
        if count > 0 {
            let newer = self.entries.split_off(cut);
            self.entries.extend(newer.into_iter().filter(|element| element.value.role() == Role::Record));
        }
        self.seen -= count - missing;
        let unseen = missing.min(self.unseen);
        self.unseen -= unseen;
        if missing > unseen { Err(Overrun) } else { Ok(()) }
    }

    /// Inverts the newest branch and removes the addresses after it.
    ///
    /// # Errors
    /// There is none, neither here nor among the unseen elements.
    pub fn mispredict(&mut self) -> Result<(), Overrun> {
        let mut found = false;
        for index in (0..self.entries.len()).rev() {
            if self.entries[index].value.mispredict() {
                found = true;
                break;
            }
            if self.entries[index].value.role() == Role::Address {
                self.entries.remove(index);
            }
        }
        if found || self.unseen > 0 { Ok(()) } else { Err(Overrun) }
    }

    /// Drops everything; the records go to `sink` first.
    pub fn discard(&mut self, sink: &mut impl FnMut(Located<T>)) {
        for element in self.entries.drain(..) {
            if element.value.role() == Role::Record {
                sink(element);
            }
        }
        self.clear();
    }

    /// Takes everything, resolved or not, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Located<T>> {
        self.seen = 0;
        self.unseen = 0;
        self.entries.drain(..)
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.seen = 0;
        self.unseen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Item {
        Atom(bool),
        Exception,
        Address(u8),
        Context,
        Time(u8),
    }
    use Item::*;

    impl Speculative for Item {
        fn role(&self) -> Role {
            match self {
                Atom(_) | Exception => Role::P0,
                Address(_) => Role::Address,
                Context => Role::Path,
                Time(_) => Role::Record,
            }
        }

        fn mispredict(&mut self) -> bool {
            let Atom(taken) = self else { return false };
            *taken = !*taken;
            true
        }
    }

    fn queue(items: &[Item]) -> Queue<Item> {
        let mut queue = Queue::default();
        for &value in items {
            queue.push(Located { offset: 0, length: 1, value }).unwrap();
        }
        queue
    }

    fn commit(queue: &mut Queue<Item>, count: u32) -> (Vec<Item>, Result<(), Overrun>) {
        let mut items = Vec::new();
        let result = queue.commit(count, &mut |element| items.push(element.value));
        (items, result)
    }

    fn rest(queue: &mut Queue<Item>) -> Vec<Item> {
        let depth = queue.depth();
        let mut items = commit(queue, depth).0;
        queue.release(&mut |element| items.push(element.value));
        items
    }

    #[test]
    fn a_commit_stops_right_after_its_last_p0_element() {
        let mut queue = queue(&[Context, Atom(true), Time(1), Exception, Address(2), Atom(false)]);
        assert_eq!(commit(&mut queue, 2), (vec![Context, Atom(true), Time(1), Exception], Ok(())));
        assert_eq!(queue.depth(), 1);
        assert_eq!(commit(&mut queue, 1).0, [Address(2), Atom(false)]);
        assert!(!queue.has_entries());
    }

    #[test]
    fn commit_of_more_than_the_depth_is_reported() {
        let mut queue = queue(&[Atom(true), Time(1)]);
        assert_eq!(commit(&mut queue, 2), (vec![Atom(true), Time(1)], Err(Overrun)));
    }

    #[test]
    fn cancel_takes_the_path_and_leaves_the_records() {
        let mut queue = queue(&[Atom(true), Address(1), Time(1), Atom(false), Context, Time(2), Address(2)]);
        assert_eq!(queue.cancel(1), Ok(()));
        assert_eq!(queue.depth(), 1);
        assert_eq!(rest(&mut queue), [Atom(true), Address(1), Time(1), Time(2)]);
    }

    #[test]
    fn cancel_of_nothing_changes_nothing() {
        let items = [Atom(true), Address(1), Context];
        let mut queue = queue(&items);
        assert_eq!(queue.cancel(0), Ok(()));
        assert_eq!(rest(&mut queue), items);
    }

    #[test]
    fn cancel_of_more_than_the_depth_is_reported() {
        let mut queue = queue(&[Atom(true)]);
        assert_eq!(queue.cancel(2), Err(Overrun));
        assert_eq!(queue.depth(), 0);
    }

    #[test]
    fn mispredict_turns_the_newest_branch_and_drops_its_addresses() {
        let mut queue = queue(&[Address(1), Atom(true), Address(2), Context, Exception, Address(3)]);
        assert_eq!(queue.mispredict(), Ok(()));
        assert_eq!(rest(&mut queue), [Address(1), Atom(false), Context, Exception]);
        assert_eq!(queue.mispredict(), Err(Overrun));
    }

    #[test]
    fn unseen_elements_absorb_commits_cancels_and_mispredicts() {
        let mut queue = queue(&[]);
        queue.expect_unseen(3);
        queue.push(Located { offset: 0, length: 1, value: Atom(true) }).unwrap();
        assert_eq!(queue.depth(), 4);
        assert_eq!(queue.cancel(2), Ok(()));
        assert_eq!(queue.mispredict(), Ok(()));
        assert_eq!(commit(&mut queue, 2), (vec![], Ok(())));
        assert_eq!(queue.cancel(1), Err(Overrun));
    }

    #[test]
    fn release_stops_before_a_p0_element_seen_or_unseen() {
        let mut waiting = queue(&[Time(1), Context, Atom(true), Time(2)]);
        let mut items = Vec::new();
        waiting.release(&mut |element| items.push(element.value));
        assert_eq!(items, [Time(1), Context]);

        let mut waiting = queue(&[Time(1)]);
        waiting.expect_unseen(1);
        waiting.release(&mut |_| panic!("an unseen element is older"));
    }

    #[test]
    fn discard_gives_only_records() {
        let mut queue = queue(&[Time(1), Atom(true), Address(1), Time(2)]);
        let mut items = Vec::new();
        queue.discard(&mut |element| items.push(element.value));
        assert_eq!(items, [Time(1), Time(2)]);
        assert!(!queue.has_entries() && queue.depth() == 0);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut queue = Queue::default();
        let element = Located { offset: 0, length: 1, value: Time(0) };
        let pushed = (0..LIMIT + 10).take_while(|_| queue.push(element).is_ok()).count();
        assert_eq!(pushed, LIMIT);
    }
}
