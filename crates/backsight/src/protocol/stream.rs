//! What every protocol gives: the stream of one source, decoded as far as is asked for.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

use backsight_core::AddressSpace;
use backsight_core::{Accounting, Located};
use backsight_flow::{CodeCache, CountedRanges, Event, Follow, PathId, PathRanges, Statistics};
use backsight_image::Window;
use std::ops::Range;
use std::sync::Arc;

use crate::SourceCode;

/// Takes what a stream gives. Every closure is one that always wants more.
pub trait StreamSink<V> {
    /// Takes an item, with the number of the sub-source: the hart, where several share one stream; else 0.
    fn take(&mut self, sub_source: u16, item: Located<V>);

    /// Takes the items of a path that was walked before: `path` always stands for the same values, and for the same distances
    /// between their offsets.
    #[inline(always)]
    fn take_path(&mut self, sub_source: u16, _path: PathId, ranges: PathRanges<'_>)
    where
        V: From<Event>,
    {
        ranges.for_each(|range| self.take(sub_source, range.map(|range| Event::Range(range).into())));
    }

    /// The same where cycle counts are between the items: each with the count right before it, if there is one.
    #[inline(always)]
    fn take_counted_path(&mut self, sub_source: u16, _path: PathId, ranges: CountedRanges<'_>)
    where
        V: From<Event>,
    {
        ranges.for_each(|(count, range)| {
            count.into_iter().for_each(|count| self.take(sub_source, count.map(V::from)));
            self.take(sub_source, range.map(|range| Event::Range(range).into()));
        });
    }

    /// What follows happened in this span of time.
    fn enter(&mut self, _window: Window) {}

    /// Does it want no more? A stream asks between items, and gives up the rest of what it was fed: a few bytes may
    /// stand for a hundred million instructions.
    #[inline]
    fn is_done(&self) -> bool {
        false
    }

    /// Are items of no use to it?
    #[inline]
    fn ignores_items(&self) -> bool {
        false
    }
}

impl<V, F: FnMut(u16, Located<V>)> StreamSink<V> for F {
    #[inline(always)]
    fn take(&mut self, sub_source: u16, item: Located<V>) {
        self(sub_source, item);
    }
}

/// A sink of any type.
pub trait AnySink<V> {
    /// Takes an item, and says whether it wants no more.
    fn take_one(&mut self, sub_source: u16, item: Located<V>) -> bool;

    /// Takes a path, and says whether it wants no more.
    fn take_whole_path(&mut self, sub_source: u16, path: PathId, ranges: PathRanges<'_>) -> bool
    where
        V: From<Event>;

    /// The same with cycle counts.
    fn take_whole_counted_path(&mut self, sub_source: u16, path: PathId, ranges: CountedRanges<'_>) -> bool
    where
        V: From<Event>;

    /// [`StreamSink::enter`].
    fn enter_window(&mut self, window: Window);

    /// [`StreamSink::is_done`].
    fn has_enough(&self) -> bool;

    /// [`StreamSink::ignores_items`].
    fn ignores_all(&self) -> bool;
}

impl<V, S: StreamSink<V>> AnySink<V> for S {
    fn take_one(&mut self, sub_source: u16, item: Located<V>) -> bool {
        self.take(sub_source, item);
        self.is_done()
    }

    fn take_whole_path(&mut self, sub_source: u16, path: PathId, ranges: PathRanges<'_>) -> bool
    where
        V: From<Event>,
    {
        self.take_path(sub_source, path, ranges);
        self.is_done()
    }

    fn take_whole_counted_path(&mut self, sub_source: u16, path: PathId, ranges: CountedRanges<'_>) -> bool
    where
        V: From<Event>,
    {
        self.take_counted_path(sub_source, path, ranges);
        self.is_done()
    }

    fn enter_window(&mut self, window: Window) {
        self.enter(window);
    }

    fn has_enough(&self) -> bool {
        self.is_done()
    }

    fn ignores_all(&self) -> bool {
        self.ignores_items()
    }
}

/// The one sink that streams are compiled for: it calls a sink of any type, for each item and for each path.
struct Calls<'s, V> {
    sink: &'s mut dyn AnySink<V>,
    is_done: bool,
    is_ignored: bool,
}

impl<V> StreamSink<V> for Calls<'_, V> {
    #[inline]
    fn take(&mut self, sub_source: u16, item: Located<V>) {
        if !self.is_ignored {
            self.is_done = self.sink.take_one(sub_source, item);
        }
    }

    #[inline(always)]
    fn take_path(&mut self, sub_source: u16, path: PathId, ranges: PathRanges<'_>)
    where
        V: From<Event>,
    {
        if !self.is_ignored {
            self.is_done = self.sink.take_whole_path(sub_source, path, ranges);
        }
    }

    #[inline(always)]
    fn take_counted_path(&mut self, sub_source: u16, path: PathId, ranges: CountedRanges<'_>)
    where
        V: From<Event>,
    {
        if !self.is_ignored {
            self.is_done = self.sink.take_whole_counted_path(sub_source, path, ranges);
        }
    }

    fn enter(&mut self, window: Window) {
        self.sink.enter_window(window);
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Something that a stream is to do.
#[derive(Clone, Copy, Debug)]
pub enum Act<'a> {
    /// [`Stream::feed`].
    Feed(&'a [u8]),
    /// [`Stream::finish`].
    Finish,
    /// [`Stream::reset`].
    Reset,
}

impl Act<'_> {
    /// Does it.
    pub fn on<S: Stream>(self, stream: &mut S, sink: &mut dyn AnySink<S::Value>) {
        let (is_done, is_ignored) = (sink.has_enough(), sink.ignores_all());
        let mut sink = Calls { sink, is_done, is_ignored };
        match self {
            Self::Feed(bytes) => stream.feed(bytes, &mut sink),
            Self::Finish => stream.finish(&mut sink),
            Self::Reset => stream.reset(&mut sink),
        }
    }
}

/// A stream that is compiled once, in its own crate, for sinks of any type. The loops of a decoder and a follower are large, and
/// a call for each path is little beside what is done with it.
pub trait AnyStream: Stream {
    /// Does something. To be written as [`Act::on`] in each type: a default would be compiled in
    /// each crate that uses it.
    fn act(&mut self, act: Act<'_>, sink: &mut dyn AnySink<Self::Value>);
}

/// Gives what it takes to another sink as something else.
pub(super) struct Mapped<'s, S, F>(pub &'s mut S, pub F);

impl<T, V, S: StreamSink<V>, F: Fn(T) -> V> StreamSink<T> for Mapped<'_, S, F> {
    #[inline(always)]
    fn take(&mut self, sub_source: u16, item: Located<T>) {
        self.0.take(sub_source, item.map(|value| (self.1)(value)));
    }

    fn enter(&mut self, window: Window) {
        self.0.enter(window);
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// Gives the events of one follower to the sink of its stream.
pub(super) struct Events<'s, S> {
    /// Whose they are.
    pub sub_source: u16,
    /// Who takes them.
    pub sink: &'s mut S,
}

impl<S: StreamSink<Event>> backsight_flow::Sink for Events<'_, S> {
    #[inline(always)]
    fn take(&mut self, event: Located<Event>) {
        self.sink.take(self.sub_source, event);
    }

    #[inline(always)]
    fn take_path(&mut self, path: PathId, ranges: PathRanges<'_>) {
        self.sink.take_path(self.sub_source, path, ranges);
    }

    #[inline(always)]
    fn take_counted_path(&mut self, path: PathId, ranges: CountedRanges<'_>) {
        self.sink.take_counted_path(self.sub_source, path, ranges);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.sink.is_done()
    }
}

/// The bytes of one source on their way to packets, to execution, or to something else.
///
/// Sinks are generic, so that all stages of one protocol compile into one loop. What goes by [`AnyStream::act`] is compiled for one.
pub trait Stream {
    /// What comes out.
    type Value;

    /// Takes the next bytes. However a stream is cut into pieces, what comes out is the same.
    fn feed<S: StreamSink<Self::Value>>(&mut self, bytes: &[u8], sink: &mut S);

    /// The stream ends.
    fn finish<S: StreamSink<Self::Value>>(&mut self, sink: &mut S);

    /// Bytes are missing here: what follows has to be understood without what came before.
    fn reset<S: StreamSink<Self::Value>>(&mut self, sink: &mut S);

    /// What follows happened in this span of time: code is looked up as it was then.
    fn enter(&mut self, _window: Window) {}

    /// What follows comes after what another stream of the same source had, in another configuration.
    fn continue_after(&mut self, _before: &Self) {}

    /// What follows begins at this one of the starts of its buffer. Gives when that was, where code depends on it.
    fn begin(&mut self, _start: usize) -> Option<Window> {
        None
    }

    /// The stream as one that can be left and taken up again; `None` if its protocol has no such thing.
    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        None
    }

    /// What it has read of the code, for another stream of the same code; `None` where it keeps that for itself.
    fn take_cache(&mut self) -> Option<CodeCache> {
        None
    }

    /// Goes on with what another stream of the same code has read. What comes out is the same.
    ///
    /// # Errors
    /// Gives it back if it is of no use here.
    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        Err(cache)
    }

    /// What became of the bytes so far.
    fn accounting(&self) -> Accounting;

    /// Packets so far, bad ones included.
    fn packets(&self) -> u64;

    /// What was counted on the way.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    /// What was counted by kind.
    fn kinds(&mut self) -> Kinds {
        Kinds::default()
    }

    /// What a user should know about the result.
    fn notes(&self) -> Notes {
        Notes::default()
    }
}

/// A stream that can be left between two bytes, and taken up again there by another one of the same source. Streams that
/// know the same give the same, wherever they began.
pub trait Resumable {
    /// What it knows now.
    fn state(&self) -> SavedState;

    /// Is that so much that it is kept only where it has to be?
    fn is_costly(&self) -> bool {
        false
    }

    /// Goes on as one that knows this. Counts go on.
    fn restore(&mut self, state: &SavedState);

    /// What a stream knows that begins at this offset, in the middle of a source. Of what comes before nothing is known but
    /// what one knew at an earlier offset, if that is given.
    fn starting_at(&self, offset: u64, earlier: Option<&SavedState>) -> SavedState;

    /// Where the last synchronisation in these bytes begins, if that is `from` or later: it may be a good offset to begin at. The
    /// bytes begin at such an offset, or at the beginning of the source.
    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize>;

    /// Does [`Resumable::last_sync`] find synchronisations in bytes that begin anywhere, too?
    fn finds_synchronisation_anywhere(&self) -> bool {
        false
    }
}

/// What a stream knows between two bytes, or a state between two items: all that decides what comes of those that follow.
#[derive(Clone)]
pub struct SavedState(Arc<dyn ComparableState>);

impl fmt::Debug for SavedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SavedState {
    /// Of a type of its own.
    pub fn new<T: PartialEq + fmt::Debug + Send + Sync + 'static>(state: T) -> Self {
        Self(Arc::new(state))
    }

    /// The same, if it is of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }
}

impl PartialEq for SavedState {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any())
    }
}

/// Any state that can be compared with another one of its type.
trait ComparableState: Send + Sync + fmt::Debug {
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: PartialEq + fmt::Debug + Send + Sync + 'static> ComparableState for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
}

/// A follower whose code changes with time.
pub(super) trait TimedFollower<'c> {
    /// The code, to change it in a range of addresses: what was remembered of them is forgotten.
    fn code_in(&mut self, space: AddressSpace, addresses: Range<u64>) -> &mut SourceCode<'c>;

    /// The context that execution is in may belong to another process now.
    fn renew_space(&mut self);

    /// Goes to another time, and forgets what is not as it was.
    fn enter(&mut self, window: Window) {
        let changed = self.code_in(AddressSpace::ANY, 0..0).enter(window);
        for (space, addresses) in changed {
            self.code_in(space, addresses);
        }
        self.renew_space();
    }
}

/// A follower of any protocol, whose code changes with time.
pub(super) struct Timed<'f, F>(pub &'f mut F);

impl<'c, F: Follow<Code = SourceCode<'c>>> TimedFollower<'c> for Timed<'_, F> {
    fn code_in(&mut self, space: AddressSpace, addresses: Range<u64>) -> &mut SourceCode<'c> {
        self.0.change_code(space, addresses)
    }

    fn renew_space(&mut self) {
        self.0.renew_space();
    }
}

/// A stream of packets, which can also be counted without being looked at one by one.
pub trait PacketStream: Stream {
    /// Takes the next bytes, and counts the packets that end in them.
    fn count(&mut self, bytes: &[u8]);

    /// The same, by kind.
    fn tally(&mut self, bytes: &[u8], kinds: &mut Kinds);

    /// Adds to `kinds` what [`PacketStream::tally`] has counted and not put there yet.
    fn settle(&mut self, _kinds: &mut Kinds) {}
}

/// Packets, and bytes of packets, of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(Vec<(&'static str, u64, u64)>);

impl Kinds {
    /// Counts some packets of a kind.
    pub fn add(&mut self, name: &'static str, packets: u64, bytes: u64) {
        // Names are found by where they stand in the program, which is fast; one that stands twice is added up when
        // the sums are asked for.
        let known = self.0.iter().position(|&(other, ..)| std::ptr::eq(other, name));
        let index = known.unwrap_or_else(|| {
            self.0.push((name, 0, 0));
            self.0.len() - 1
        });
        if let Some((_, packets_before, bytes_before)) = self.0.get_mut(index) {
            *packets_before += packets;
            *bytes_before += bytes;
        }
    }

    /// Adds what was counted from one moment to another: `from` and `to` are of one count.
    pub(crate) fn add_since(&mut self, from: &Self, to: &Self) {
        for (index, &(name, packets, bytes)) in to.0.iter().enumerate() {
            // Kinds keep their places.
            let (_, packets_before, bytes_before) = from.0.get(index).copied().unwrap_or((name, 0, 0));
            if packets > packets_before {
                self.add(name, packets - packets_before, bytes - bytes_before);
            }
        }
    }

    /// Packets and bytes by name.
    pub fn by_name(&self) -> BTreeMap<&'static str, (u64, u64)> {
        let mut sums: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        for &(name, packets, bytes) in &self.0 {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + packets, sum.1 + bytes);
        }
        sums
    }
}

impl std::ops::AddAssign<&Self> for Kinds {
    fn add_assign(&mut self, other: &Self) {
        other.0.iter().for_each(|&(name, packets, bytes)| self.add(name, packets, bytes));
    }
}

/// What a user should know about a result, in words, and how often something happened that a user should know of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    words: Vec<String>,
    counts: Vec<(String, u64)>,
}

impl Notes {
    /// In words.
    pub(super) fn of(words: impl IntoIterator<Item = String>) -> Self {
        Self { words: words.into_iter().collect(), counts: Vec::new() }
    }

    /// Something happened so often.
    pub(super) fn count(&mut self, what: &str, times: u64) {
        match self.counts.iter_mut().find(|(known, _)| known == what) {
            Some((_, count)) => *count += times,
            None => self.counts.push((what.to_owned(), times)),
        }
    }

    /// Adds what was counted from one moment to another, and takes the words of the other: `from` and `to` are of one stream.
    pub(crate) fn add_since(&mut self, from: &Self, to: &Self) {
        self.words.clone_from(&to.words);
        for (what, times) in &to.counts {
            let before = from.counts.iter().find(|(known, _)| known == what);
            self.count(what, times - before.map_or(0, |(_, before)| *before));
        }
    }

    /// What was counted.
    pub(super) fn counts(self) -> Self {
        Self { words: Vec::new(), ..self }
    }

    /// All of it in words.
    pub(crate) fn into_words(self) -> Vec<String> {
        let counts = self.counts.into_iter().filter(|(_, times)| *times > 0);
        let counts = counts.map(|(what, times)| format!("{times} times {what}"));
        self.words.into_iter().chain(counts).collect()
    }
}

/// What is known of several harts of one stream.
impl std::ops::AddAssign<&Self> for Notes {
    fn add_assign(&mut self, other: &Self) {
        let new = other.words.iter().filter(|word| !self.words.contains(word)).cloned();
        self.words.extend(new.collect::<Vec<_>>());
        other.counts.iter().for_each(|(what, times)| self.count(what, *times));
    }
}

/// What a packet means for a reader that looks only at the outline of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landmark {
    /// Nothing special.
    None,
    /// From here on the stream can be read without what came before.
    Sync,
    /// The time.
    Time(u64),
    /// The trace unit lost data.
    Overflow,
    /// Bytes that are no packet.
    Bad,
    /// Bytes that were passed over in search of a packet; reported once the search is over.
    Unsynchronised,
}
