//! Where execution is, and how much of that a decoder knows.

use super::packer::Location;
use backsight_core::{Address, Isa, Retired};

/// The place that execution reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The next instruction, if that is known.
    pub address: Option<Address>,
    /// The instruction set there; after an indirect branch the next instruction tells.
    pub isa: Isa,
    pub isa_open: bool,
    /// Instructions since the last P0 element, and where it went.
    pub block: u64,
    pub origin: Address,
    /// What has to be said before the next P0 element.
    pub target: Target,
    pub absorbed: Option<Absorbed>,
}

/// Where the last P0 element went, as far as a decoder cannot know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A decoder knows.
    Known,
    /// Tracing begins here.
    Restart(Location),
    /// An indirect branch; `stack`: the return stack may know.
    Indirect { place: Location, stack: bool, exception_return: bool },
    /// A direct branch that is broadcast.
    Broadcast(Location),
    /// The handler of an exception.
    Handler(Location),
}

/// Instructions that a Q element will stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absorbed {
    pub count: u64,
    pub next: Location,
}

impl Default for Position {
    fn default() -> Self {
        Self {
            address: None,
            isa: Isa::A64,
            isa_open: true,
            block: 0,
            origin: Address(0),
            target: Target::Known,
            absorbed: None,
        }
    }
}

impl Position {
    /// Is this the next instruction, in the instruction set that is known?
    #[inline(always)]
    pub fn goes_on_at(&self, retired: &Retired) -> bool {
        self.address == Some(retired.address) && self.isa == retired.isa
    }

    /// Is this the next instruction, as far as is known?
    #[inline(always)]
    pub fn may_go_on_at(&self, retired: &Retired) -> bool {
        self.address == Some(retired.address) && (self.isa_open || self.isa == retired.isa)
    }

    /// Only now the instruction set at the target of an indirect branch is known.
    #[inline]
    pub fn arrive(&mut self, retired: &Retired) {
        if self.isa_open {
            if let Target::Indirect { place, .. } | Target::Handler(place) = &mut self.target {
                place.isa = retired.isa;
            }
            if let Some(absorbed) = &mut self.absorbed {
                absorbed.next.isa = retired.isa;
            }
        }
        self.address = Some(retired.address);
        self.isa = retired.isa;
        self.isa_open = false;
    }

    /// A P0 element went there.
    #[inline]
    pub fn reach(&mut self, address: Address) {
        self.address = Some(address);
        self.origin = address;
    }

    /// Execution goes on at `address`, or nobody knows where.
    pub fn jump(&mut self, address: Option<Address>) {
        self.block = 0;
        self.address = address;
        self.isa_open = true;
    }

    /// The place where execution is, or would be.
    pub fn place_of(&self, address: Address) -> Location {
        let isa = if self.isa == Isa::A32 && address.0 & 2 != 0 { Isa::T32 } else { self.isa };
        Location { address, isa }
    }

    /// What a decoder has to be told about the last P0 element; it will be.
    pub fn take_target(&mut self) -> Target {
        core::mem::replace(&mut self.target, Target::Known)
    }

    /// Where the last P0 element went, which nothing has reported yet.
    pub fn is_at_new_target(&self) -> bool {
        let moved =
            matches!(self.target, Target::Indirect { .. } | Target::Broadcast(_) | Target::Handler(_));
        moved && self.block == 0
    }

    /// Did the last P0 element return from an exception?
    pub fn follows_exception_return(&self) -> bool {
        matches!(self.target, Target::Indirect { exception_return: true, .. })
    }
}
