//! Comparators of the specification's filter model.

use backsight_riscv::ingress::{Block, Itype};

/// What a comparator looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Input {
    /// Addresses of instructions.
    #[default]
    Iaddr,
    /// Context.
    Context,
    /// Trap value; matches only where there is one.
    Tval,
    /// Data address; instruction blocks have none.
    Daddr,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Function {
    /// `==`
    #[default]
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// Primary: never matches. Secondary: always matches, and its value is a mask for the primary comparison.
    Mask,
    /// Always matches.
    Always,
}

/// How primary and secondary result are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Primary.
    #[default]
    Primary,
    /// Primary and secondary.
    Both,
    /// Not (primary and secondary).
    NotBoth,
    /// Set by primary, held until the instruction after secondary.
    Latch,
}

/// A pair of comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparator {
    /// Input of the primary comparison.
    pub primary_input: Input,
    /// Input of the secondary comparison.
    pub secondary_input: Input,
    /// Primary comparison.
    pub primary: Function,
    /// Secondary comparison.
    pub secondary: Function,
    /// How they are combined.
    pub mode: Mode,
    /// Notify when the primary one matches (addresses of instructions only).
    pub notify_primary: bool,
    /// Notify when the secondary one matches.
    pub notify_secondary: bool,
    /// Value of the primary comparison.
    pub primary_value: u64,
    /// Value of the secondary comparison.
    pub secondary_value: u64,
    latched: bool,
}

impl Comparator {
    /// Matches from `first` up to `end`, which is not included.
    pub fn within(input: Input, first: u64, end: u64) -> Self {
        Self {
            primary_input: input,
            secondary_input: input,
            primary: Function::GreaterOrEqual,
            secondary: Function::Less,
            mode: Mode::Both,
            primary_value: first,
            secondary_value: end,
            ..Self::default()
        }
    }

    /// Matches everywhere else.
    pub fn outside(input: Input, first: u64, end: u64) -> Self {
        Self { mode: Mode::NotBoth, ..Self::within(input, first, end) }
    }

    /// Matches from the instruction at `first` to the one at `last`.
    pub fn window(first: u64, last: u64) -> Self {
        Self { mode: Mode::Latch, primary_value: first, secondary_value: last, ..Self::default() }
    }

    /// Matches values that equal `value` where `mask` has a one.
    pub fn masked(input: Input, value: u64, mask: u64) -> Self {
        Self {
            primary_input: input,
            secondary: Function::Mask,
            mode: Mode::Both,
            primary_value: value,
            secondary_value: mask,
            ..Self::default()
        }
    }

    /// Has the instruction at `address` reported.
    pub fn notifying(address: u64) -> Self {
        Self { notify_primary: true, primary_value: address, ..Self::default() }
    }

    /// From the control register; values are written apart.
    pub fn set_control(&mut self, control: u32) {
        let field = |low: u32, bits: u32| control >> low & ((1 << bits) - 1);
        self.primary_input = input(field(0, 2));
        self.secondary_input = input(field(2, 2));
        self.primary = function(field(4, 3));
        self.secondary = function(field(8, 3));
        self.mode = match field(12, 2) {
            0 => Mode::Primary,
            1 => Mode::Both,
            2 => Mode::NotBoth,
            _ => Mode::Latch,
        };
        self.notify_primary = field(14, 1) != 0;
        self.notify_secondary = field(15, 1) != 0;
    }

    /// Compares one block: does it match, and is it to be reported?
    pub fn compare(&mut self, block: &Block) -> (bool, bool) {
        let mask = if self.secondary == Function::Mask { self.secondary_value } else { u64::MAX };
        let primary = self.primary != Function::Mask
            && matches(self.primary, self.primary_input, self.primary_value, mask, block);
        let secondary = self.secondary == Function::Mask
            || matches(self.secondary, self.secondary_input, self.secondary_value, u64::MAX, block);
        let result = match self.mode {
            Mode::Primary => primary,
            Mode::Both => primary && secondary,
            Mode::NotBoth => !(primary && secondary),
            Mode::Latch => {
                // A primary function that never matches primes the latch.
                let result = self.latched || primary || self.primary == Function::Mask;
                self.latched = result && !secondary;
                result
            }
        };
        let iaddr = |input| input == Input::Iaddr;
        let notify = self.notify_primary && primary && iaddr(self.primary_input)
            || self.notify_secondary && secondary && iaddr(self.secondary_input);
        (result, notify)
    }
}

fn input(bits: u32) -> Input {
    match bits {
        0 => Input::Iaddr,
        1 => Input::Context,
        2 => Input::Tval,
        _ => Input::Daddr,
    }
}

fn function(bits: u32) -> Function {
    match bits {
        0 => Function::Equal,
        1 => Function::NotEqual,
        2 => Function::Less,
        3 => Function::LessOrEqual,
        4 => Function::Greater,
        5 => Function::GreaterOrEqual,
        6 => Function::Mask,
        _ => Function::Always,
    }
}

fn holds(function: Function, value: u64, with: u64) -> bool {
    match function {
        Function::Equal => value == with,
        Function::NotEqual => value != with,
        Function::Less => value < with,
        Function::LessOrEqual => value <= with,
        Function::Greater => value > with,
        Function::GreaterOrEqual => value >= with,
        Function::Mask => false,
        Function::Always => true,
    }
}

fn matches(function: Function, input: Input, with: u64, mask: u64, block: &Block) -> bool {
    if function == Function::Always {
        return true;
    }
    let test = |value: u64| holds(function, value & mask, with & mask);
    match input {
        Input::Context => test(block.context),
        Input::Tval => block.itype == Itype::Exception && test(block.tval),
        Input::Daddr => false,
        Input::Iaddr if block.iretire == 0 => block.itype == Itype::Exception && test(block.iaddr),
        // Without a mask an order is decided by the ends of the block.
        Input::Iaddr if mask == u64::MAX => match function {
            Function::Equal => {
                with.wrapping_sub(block.iaddr) <= block.last().wrapping_sub(block.iaddr)
                    && with.wrapping_sub(block.iaddr) & 1 == 0
            }
            _ => test(block.iaddr) || test(block.last()),
        },
        Input::Iaddr => {
            let half_words = block.last().wrapping_sub(block.iaddr) / 2;
            (0..=half_words.min(u64::from(block.iretire))).any(|n| test(block.iaddr.wrapping_add(2 * n)))
        }
    }
}
