//! Where execution is, as far as it is known.

use backsight_arm::etm4::Is;
use backsight_core::{Address, AddressSpace, Context, Isa};
use backsight_image::Code;

use crate::walk::{Start, within};

/// What is known about where execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is at the address.
    Known,
    /// An indirect branch at the address was taken: its target is in the trace or on the return stack.
    AfterBranch,
    /// It went on from the address, which cannot be read.
    Unreadable,
    /// Nothing.
    Unknown,
}

/// Address, instruction set and context of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub state: State,
    pub address: Address,
    pub isa: Isa,
    /// T32: how many instructions from here on are still inside an IT block.
    pub it: u8,
    pub context: Option<Context>,
    /// The last VMID and context ID that the trace gave.
    identifiers: (Option<u32>, Option<u64>),
    space: AddressSpace,
    last_is: Is,
    t32_only: bool,
}

impl Position {
    pub fn new(t32_only: bool) -> Self {
        Self {
            state: State::Unknown,
            address: Address(0),
            isa: if t32_only { Isa::T32 } else { Isa::A64 },
            it: 0,
            context: None,
            identifiers: (None, None),
            space: AddressSpace::ANY_S,
            last_is: Is::Is0,
            t32_only,
        }
    }

    /// Is everything known that a walk needs?
    #[inline]
    pub fn is_known(&self) -> bool {
        self.state == State::Known && self.context.is_some()
    }

    /// Forgets everything but the identifiers: a trace unit repeats only those that it is set up to trace.
    pub fn forget(&mut self) {
        *self = Self { identifiers: self.identifiers, ..Self::new(self.t32_only) };
    }

    #[inline]
    pub fn start(&self) -> Start {
        Start { address: self.address, space: self.space, isa: self.isa, it: self.it }
    }

    pub fn space(&self) -> AddressSpace {
        self.space
    }

    /// The flag tells the two 32-bit instruction sets apart.
    #[inline]
    pub fn isa_of(&self, is: Is) -> Isa {
        match (self.context, is) {
            _ if self.t32_only => Isa::T32,
            (None | Some(Context { wide: true, .. }), _) => Isa::A64,
            (Some(_), Is::Is0) => Isa::A32,
            (Some(_), Is::Is1) => Isa::T32,
        }
    }

    /// Execution is at this address.
    #[inline]
    pub fn go(&mut self, address: Address, isa: Isa) {
        self.state = State::Known;
        self.address = address;
        self.isa = isa;
        self.it = 0;
    }

    /// The trace names an address. One that only restates the position leaves the IT state alone.
    #[inline]
    pub fn name(&mut self, address: Address, is: Is) {
        let isa = self.isa_of(is);
        let address = within(isa, address);
        let same = self.state == State::Known && self.address == address && self.isa == isa;
        let it = if same { self.it } else { 0 };
        self.last_is = is;
        self.go(address, isa);
        self.it = it;
    }

    /// The trace gives the context. Identifiers that it leaves out are those of before.
    pub fn enter(&mut self, mut context: Context, code: &impl Code) -> Context {
        let before = self.context;
        context.vmid = context.vmid.or(self.identifiers.0);
        context.context_id = context.context_id.or(self.identifiers.1);
        self.identifiers = (context.vmid, context.context_id);
        self.context = Some(context);
        self.space = code.space_of(&context);
        // An address may have come before the width of its registers was known.
        if self.state != State::Known || before.is_none_or(|before| before.wide != context.wide) {
            self.isa = self.isa_of(self.last_is);
            self.address = within(self.isa, self.address);
        }
        context
    }

    /// Looks up the space of the context again. Is it another one?
    pub fn renew_space(&mut self, code: &impl Code) -> bool {
        let space = self.context.map_or(self.space, |context| code.space_of(&context));
        std::mem::replace(&mut self.space, space) != space
    }

    /// A periodic Trace Info begins the address history again.
    pub fn restate(&mut self) {
        self.last_is = Is::Is0;
    }
}
