//! A small assembler: functions of random instructions.

use backsight_core::{Address, Isa};
use backsight_testing::Random;

/// What an instruction is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    PlainConditional,
    PlainWide,
    Load,
    Store,
    Conditional,
    CompareZero,
    Branch,
    Call,
    CallOther,
    IndirectCall,
    Indirect,
    Return,
    ConditionalReturn,
    Isb,
    Wait,
    SystemCall,
    If { count: u8 },
    ExceptionReturn,
    TransactionStart,
    TransactionCommit,
}

/// What a function is like.
#[derive(Clone, Copy)]
pub struct Style {
    /// It handles exceptions.
    pub handler: bool,
    pub transactions: bool,
    /// Up to so many plain instructions more between two others.
    pub plain: u64,
}

/// The code of one function. It ends in a return, or in an exception return for a handler.
pub fn function(
    random: &mut Random,
    (at, isa): (Address, Isa),
    functions: &[(Address, Isa)],
    style: Style,
) -> Vec<u8> {
    let kinds = choose(random, isa, style);
    let mut offsets = Vec::new();
    let mut end = 0;
    for (kind, _) in &kinds {
        offsets.push(end);
        end += size(*kind, isa);
    }
    let mut code = Vec::new();
    for (index, &(kind, _)) in kinds.iter().enumerate() {
        let here = at.plus(offsets[index]);
        let open = |other: &usize| !kinds[*other].1;
        let forward: Vec<usize> = (index + 2..kinds.len()).filter(open).collect();
        let anywhere: Vec<usize> = (0..kinds.len()).filter(open).collect();
        let pick = |random: &mut Random, from: &[usize]| {
            let chosen = from.get(random.below(from.len().max(1) as u64) as usize).copied();
            at.plus(offsets[chosen.unwrap_or(kinds.len() - 1)])
        };
        let near = pick(random, if matches!(kind, Kind::Conditional) { &anywhere } else { &forward });
        let callable: Vec<_> = functions
            .iter()
            .filter(|(target, other)| {
                let reach = target.0.abs_diff(here.0) < 0x80_0000;
                reach && (*other == isa) == (kind != Kind::CallOther)
            })
            .collect();
        let callee =
            callable.get(random.below(callable.len().max(1) as u64) as usize).map(|(target, _)| *target);
        let bytes = match isa {
            Isa::A64 => a64(kind, here, near, callee),
            Isa::A32 => a32(kind, here, near, callee),
            _ => t32(kind, here, near, callee),
        };
        code.extend(bytes);
    }
    code
}

/// Chooses instructions; the flag says that one is inside an IT block, where nothing may branch to.
fn choose(random: &mut Random, isa: Isa, style: Style) -> Vec<(Kind, bool)> {
    let Style { handler, transactions, plain } = style;
    let mut kinds = Vec::new();
    let length = 6 + random.below(40) as usize * (1 + plain as usize);
    while kinds.len() < length {
        kinds.extend((0..random.below(plain + 1)).map(|_| (Kind::Plain, false)));
        let kind = match random.below(40) {
            0..8 => Kind::Plain,
            8..11 => Kind::PlainWide,
            11..13 => Kind::PlainConditional,
            13..15 => Kind::Load,
            15..17 => Kind::Store,
            17..23 => Kind::Conditional,
            23..25 => Kind::CompareZero,
            25 => Kind::Branch,
            26..28 => Kind::Call,
            28 => Kind::CallOther,
            29..31 => Kind::IndirectCall,
            31 => Kind::Indirect,
            32 => Kind::Return,
            33 => Kind::ConditionalReturn,
            34 => Kind::Isb,
            35 => Kind::Wait,
            36 if !handler => Kind::SystemCall,
            37 if isa == Isa::T32 => Kind::If { count: 1 + random.below(3) as u8 },
            38 if transactions => Kind::TransactionStart,
            39 if transactions => Kind::TransactionCommit,
            _ => Kind::Plain,
        };
        let no_way_out =
            matches!(kind, Kind::Indirect | Kind::Return | Kind::ConditionalReturn | Kind::SystemCall);
        kinds.push((if handler && no_way_out { Kind::Plain } else { kind }, false));
        if let Kind::If { count } = kind {
            for last in (0..count).rev() {
                let inside = [Kind::Plain, Kind::PlainWide, Kind::Load, Kind::Isb][random.below(4) as usize];
                let end = [Kind::Plain, Kind::Branch, Kind::Call, Kind::Return][random.below(4) as usize];
                let end = if handler && end == Kind::Return { Kind::Plain } else { end };
                kinds.push((if last == 0 { end } else { inside }, true));
            }
        }
    }
    kinds.push((if handler { Kind::ExceptionReturn } else { Kind::Return }, false));
    kinds
}

fn size(kind: Kind, isa: Isa) -> u64 {
    use Kind::*;
    match (isa, kind) {
        (Isa::T32, PlainWide | Call | CallOther | Isb | ExceptionReturn) => 4,
        (Isa::T32, _) => 2,
        _ => 4,
    }
}

fn words(distance: u64, bits: u32) -> u32 {
    (distance as i64 >> 2) as u32 & ((1 << bits) - 1)
}

fn a64(kind: Kind, here: Address, near: Address, callee: Option<Address>) -> Vec<u8> {
    let distance = near.0.wrapping_sub(here.0);
    let opcode: u32 = match kind {
        Kind::Plain => 0x9100_0400,
        Kind::PlainWide => 0xD503_201F,
        Kind::PlainConditional => 0x1A80_0000,
        Kind::Load => 0xF940_0020,
        Kind::Store => 0xF900_0020,
        Kind::Conditional => 0x5400_0001 | words(distance, 19) << 5,
        Kind::CompareZero => 0xB400_0000 | words(distance, 19) << 5,
        Kind::Branch => 0x1400_0000 | words(distance, 26),
        Kind::Call => callee.map_or(0xD503_201F, |to| 0x9400_0000 | words(to.0.wrapping_sub(here.0), 26)),
        Kind::CallOther | Kind::IndirectCall => 0xD63F_0020,
        Kind::Indirect => 0xD61F_0020,
        Kind::Return | Kind::ConditionalReturn => 0xD65F_03C0,
        Kind::Isb => 0xD503_3FDF,
        Kind::Wait => 0xD503_205F,
        Kind::SystemCall => 0xD400_0001,
        Kind::If { .. } => 0xD503_3FBF,
        Kind::ExceptionReturn => 0xD69F_03E0,
        Kind::TransactionStart => 0xD523_3060,
        Kind::TransactionCommit => 0xD503_307F,
    };
    opcode.to_le_bytes().into()
}

fn a32(kind: Kind, here: Address, near: Address, callee: Option<Address>) -> Vec<u8> {
    let from = here.0.wrapping_add(8);
    let near = words(near.0.wrapping_sub(from), 24);
    let far = callee.map(|to| to.0.wrapping_sub(from));
    let opcode: u32 = match kind {
        Kind::Plain | Kind::PlainWide | Kind::If { .. } => 0xE280_0001,
        Kind::PlainConditional => 0x0280_0001,
        Kind::Load => 0xE591_0000,
        Kind::Store => 0x1581_0000,
        Kind::Conditional => 0x1A00_0000 | near,
        Kind::CompareZero => 0x0A00_0000 | near,
        Kind::Branch => 0xEA00_0000 | near,
        Kind::Call => far.map_or(0xE280_0001, |far| 0xEB00_0000 | words(far, 24)),
        Kind::CallOther => {
            far.map_or(0xE280_0001, |far| 0xFA00_0000 | (far as u32 & 2) << 23 | words(far, 24))
        }
        Kind::IndirectCall => 0xE12F_FF31,
        Kind::Indirect => 0xE591_F000,
        Kind::Return => 0xE12F_FF1E,
        Kind::ConditionalReturn => 0x18BD_8000,
        Kind::Isb => 0xF57F_F06F,
        Kind::Wait => 0xE320_F003,
        Kind::SystemCall => 0xEF00_0000,
        Kind::ExceptionReturn => 0xE25E_F004,
        Kind::TransactionStart | Kind::TransactionCommit => 0xE1A0_0000,
    };
    opcode.to_le_bytes().into()
}

fn t32(kind: Kind, here: Address, near: Address, callee: Option<Address>) -> Vec<u8> {
    let from = here.0.wrapping_add(4);
    let distance = near.0.wrapping_sub(from) as i64;
    let halves = |bits: u32| (distance >> 1) as u16 & ((1 << bits) - 1);
    let wide = |opcode: u32| {
        let [first, second] = [(opcode >> 16) as u16, opcode as u16].map(u16::to_le_bytes);
        [first, second].concat()
    };
    let narrow: u16 = match kind {
        Kind::PlainWide => return wide(0xF100_0001),
        Kind::Isb => return wide(0xF3BF_8F6F),
        Kind::ExceptionReturn => return wide(0xF3DE_8F00),
        Kind::Call => {
            return wide(callee.map_or(0xF100_0001, |to| t32_call(to.0.wrapping_sub(from), 0xF000_D000)));
        }
        Kind::CallOther => {
            let from = from & !3;
            return wide(callee.map_or(0xF100_0001, |to| t32_call(to.0.wrapping_sub(from), 0xF000_C000)));
        }
        Kind::Plain | Kind::TransactionStart | Kind::TransactionCommit => 0x3001,
        Kind::PlainConditional => 0xBF00,
        Kind::Load => 0x6808,
        Kind::Store => 0x6008,
        Kind::Conditional if (-256..255).contains(&distance) => 0xD100 | halves(8),
        Kind::CompareZero if (0..127).contains(&distance) => {
            0xB100 | (distance as u16 >> 6 & 1) << 9 | (distance as u16 >> 1 & 0x1F) << 3
        }
        Kind::Conditional | Kind::CompareZero => 0x3001,
        Kind::Branch => 0xE000 | halves(11),
        Kind::IndirectCall => 0x4788,
        Kind::Indirect => 0x4708,
        Kind::Return => 0x4770,
        Kind::ConditionalReturn => 0xBD00,
        Kind::Wait => 0xBF30,
        Kind::SystemCall => 0xDF00,
        Kind::If { count } => 0xBF00 | 0x10 >> count,
    };
    narrow.to_le_bytes().into()
}

fn t32_call(distance: u64, opcode: u32) -> u32 {
    let offset = distance as u32;
    let bit = |n: u32| offset >> n & 1;
    let sign = bit(24);
    let (j1, j2) = (bit(23) ^ sign ^ 1, bit(22) ^ sign ^ 1);
    opcode | sign << 26 | (offset >> 12 & 0x3FF) << 16 | j1 << 13 | j2 << 11 | (offset >> 1 & 0x7FF)
}
