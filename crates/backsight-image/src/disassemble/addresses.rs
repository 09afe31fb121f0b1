//! Addresses that instructions compute from the program counter.
//!
//! Position-independent code forms an address in two steps: `adrp x0, PAGE` and `add x0, x0, #REST`, or
//! `auipc a0, HIGH` and `ld a0, LOW(a0)`. The first result is remembered for its register until something writes it.

use backsight_core::{Address, Isa};

/// The registers that hold a known address.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses(Vec<(String, u64)>);

impl Addresses {
    /// The address that an instruction computes, loads from or stores to; remembers and forgets registers by it.
    pub fn find(&mut self, isa: Isa, text: &str, address: Address) -> Option<Address> {
        match isa {
            Isa::A32 | Isa::T32 => relative_to_pc(isa, text, address),
            Isa::ThumbEe | Isa::Jazelle => None,
            Isa::A64 => self.follow(text, a64_page(text), a64_use(text)),
            Isa::Rv32 | Isa::Rv64 => {
                let found = self.follow(text, riscv_high(text, address), riscv_use(text))?;
                Some(if isa == Isa::Rv32 { Address(found.0 & 0xFFFF_FFFF) } else { found })
            }
        }
    }

    /// `first`: the register and the value of a first step; `second`: the register and the distance of a second.
    fn follow(
        &mut self,
        text: &str,
        first: Option<(&str, u64)>,
        second: Option<(&str, i64)>,
    ) -> Option<Address> {
        let known =
            |name: &str| self.0.iter().find(|(register, _)| register == name).map(|&(_, value)| value);
        let formed = second.and_then(|(base, distance)| Some(known(base)?.wrapping_add_signed(distance)));
        if !self.0.is_empty() {
            self.0.retain(|(register, _)| !may_write(text, register));
        }
        if let Some((register, value)) = first.filter(|(register, _)| !register.is_empty()) {
            self.0.push((register.to_owned(), value));
        }
        first.map(|(_, value)| value).or(formed).map(Address)
    }
}

/// Results stand first, those of loads of pairs and of atomics second too; bases that are written back are marked by
/// `!` or followed by what is added to them.
fn may_write(text: &str, register: &str) -> bool {
    let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
    let same = |operand: &str| {
        let operand = operand.trim();
        // The low half of an A64 register has a name of its own.
        let low = operand.strip_prefix('w').is_some_and(|number| register.strip_prefix('x') == Some(number));
        operand == register || low
    };
    let results = if ["ld", "cas", "swp"].iter().any(|prefix| name.starts_with(prefix)) { 2 } else { 1 };
    let written_back = text.contains('!') || text.contains("],");
    operands.split(',').take(results).any(same) || written_back && operands.contains(register)
}

fn a64_page(text: &str) -> Option<(&str, u64)> {
    let (name, operands) = text.split_once(' ')?;
    let (register, value) = operands.split_once(", ")?;
    let value = match name {
        "adr" | "adrp" => value,
        // Loads of a literal.
        "ldr" | "ldrsw" | "prfm" if value.starts_with("0x") => value,
        _ => return None,
    };
    let value = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
    // What is loaded from a literal is not its address.
    Some((if name.starts_with("adr") { register } else { "" }, value))
}

/// `add x0, x1, #0x10`; `[x1, #0x10]`, `[x1]`.
fn a64_use(text: &str) -> Option<(&str, i64)> {
    if let Some(operands) = text.strip_prefix("add ") {
        let mut operands = operands.splitn(3, ", ");
        let (base, distance) = (operands.nth(1)?, operands.next()?);
        return Some((base, number(distance.strip_prefix('#')?)?));
    }
    let (_, inside) = text.split_once('[')?;
    let (inside, _) = inside.split_once(']')?;
    match inside.split_once(", ") {
        Some((base, distance)) => Some((base, number(distance.strip_prefix('#')?)?)),
        None => Some((inside, 0)),
    }
}

fn riscv_high(text: &str, address: Address) -> Option<(&str, u64)> {
    let (register, high) = text.strip_prefix("auipc ")?.split_once(", ")?;
    let high = u32::from_str_radix(high.strip_prefix("0x")?, 16).ok()?;
    Some((register, address.0.wrapping_add_signed(i64::from((high << 12) as i32))))
}

/// `addi a0, a1, -16`, `mv a0, a1`; `-16(a1)`.
fn riscv_use(text: &str) -> Option<(&str, i64)> {
    if let Some(operands) = text.strip_prefix("addi ") {
        let mut operands = operands.splitn(3, ", ");
        return Some((operands.nth(1)?, number(operands.next()?)?));
    }
    let (before, base) = text.strip_suffix(')')?.rsplit_once('(')?;
    let distance = before.rsplit(' ').next()?;
    Some((base, if distance.is_empty() { 0 } else { number(distance)? }))
}

/// `[pc, #0x10]`, `add r0, pc, #0x10`, with what the program counter reads as: two instructions further, and a
/// multiple of four.
fn relative_to_pc(isa: Isa, text: &str, address: Address) -> Option<Address> {
    let pc = address.0.wrapping_add(if isa == Isa::A32 { 8 } else { 4 }) & !3;
    let (name, operands) = text.split_once(' ')?;
    let moved = |distance: i64| Some(Address(pc.wrapping_add_signed(distance) & 0xFFFF_FFFF));
    if name.starts_with("adr") {
        let (_, value) = operands.split_once(", 0x")?;
        return u64::from_str_radix(value, 16).ok().map(Address);
    }
    if let Some((_, rest)) = operands.split_once("[pc") {
        let (inside, after) = rest.split_once(']')?;
        let distance = if inside.is_empty() { Some(0) } else { number(inside.strip_prefix(", #")?) };
        return if after.is_empty() { moved(distance?) } else { None };
    }
    let (_, distance) = operands.split_once(", pc, #")?;
    match name {
        _ if name.starts_with("add") => moved(number(distance)?),
        _ if name.starts_with("sub") => moved(-number(distance)?),
        _ => None,
    }
}

/// A decimal or hexadecimal number.
pub(super) fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}
