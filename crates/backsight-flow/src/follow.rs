//! What followers of all protocols do, whatever packets they take.

use std::fmt::Debug;
use std::ops::Range;

use backsight_core::{AddressSpace, Located};
use backsight_image::Code;

use crate::{CodeCache, Sink, Statistics, etm, etrace, ntrace};

/// A follower of any protocol. Its methods are those that the followers have themselves.
pub trait Follow {
    /// The code it walks through.
    type Code;

    /// All that decides what it says of the packets that follow. Followers of one stream that know the same say the same.
    type State: Clone + PartialEq + Debug + Send + Sync + 'static;

    /// What it knows now.
    fn state(&self) -> Self::State;

    /// Goes on as one that knows this. Counts go on.
    fn restore(&mut self, known: &Self::State);

    /// The trace ends: gives all that is certain.
    fn finish(&mut self, sink: &mut impl Sink);

    /// Begins again, as after a gap in the data.
    fn reset(&mut self);

    /// What was counted.
    fn statistics(&self) -> &Statistics;

    /// The code, to change it in a range of addresses.
    fn change_code(&mut self, space: AddressSpace, addresses: Range<u64>) -> &mut Self::Code;

    /// The context that execution is in may belong to another process now.
    fn renew_space(&mut self);

    /// What it has read of the code.
    fn take_cache(&mut self) -> CodeCache;

    /// Goes on with what another one has read of the code.
    ///
    /// # Errors
    /// Gives it back if code was read in another way.
    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache>;
}

/// A follower of one of several harts in a stream.
pub trait FollowHart: Follow {
    /// Exchanges what both have read of the same code, if they can.
    fn exchange_caches(&mut self, other: &mut Self);

    /// What was last in the stream was here: packets of other harts count, too.
    fn set_position(&mut self, at: Located<()>);

    /// The same of what a follower knows.
    fn known_at(known: Self::State, at: Located<()>) -> Self::State;

    /// What may still hold of `known` at a later offset. It speaks of nothing before that.
    fn known_from(known: Self::State, offset: u64) -> Self::State;
}

macro_rules! follow {
    ($([$($parameter:ident: $bound:path),*] $protocol:ident),*) => {$(
        impl<C: Code $(, $parameter: $bound)*> Follow for $protocol::Follower<C $(, $parameter)*> {
            type Code = C;
            type State = $protocol::FollowerState $(<$parameter>)*;

            fn state(&self) -> Self::State {
                self.state()
            }

            fn restore(&mut self, known: &Self::State) {
                self.restore(known);
            }

            fn finish(&mut self, sink: &mut impl Sink) {
                self.finish(sink);
            }

            fn reset(&mut self) {
                self.reset();
            }

            fn statistics(&self) -> &Statistics {
                self.statistics()
            }

            fn change_code(&mut self, space: AddressSpace, addresses: Range<u64>) -> &mut C {
                self.change_code(space, addresses)
            }

            fn renew_space(&mut self) {
                self.renew_space();
            }

            fn take_cache(&mut self) -> CodeCache {
                self.take_cache()
            }

            fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
                self.give_cache(cache)
            }
        }
    )*};
}

macro_rules! follow_hart {
    ($($protocol:ident),*) => {$(
        impl<C: Code> FollowHart for $protocol::Follower<C> {
            fn exchange_caches(&mut self, other: &mut Self) {
                self.exchange_caches(other);
            }

            fn set_position(&mut self, at: Located<()>) {
                self.at = at;
            }

            fn known_at(mut known: Self::State, at: Located<()>) -> Self::State {
                known.at = at;
                known
            }

            fn known_from(mut known: Self::State, offset: u64) -> Self::State {
                known.at = Located { offset, length: 0, value: () };
                known.beginning = known.beginning.without_skipped();
                known
            }
        }
    )*};
}

follow!([] etrace, [] ntrace, [P: etm::Protocol] etm);
follow_hart!(etrace, ntrace);
