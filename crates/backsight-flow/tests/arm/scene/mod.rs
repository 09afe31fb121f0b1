//! A stage for small scenes: a little code, a few packets, and what was executed as text.
#![allow(dead_code)]

use backsight_arm::etm4::{
    AddressForm, AddressPacket, Atoms, Config, Context, Exception, Is, Packet, TraceInfo,
};
use backsight_core::{Address, AddressSpace, Located, Security};
use backsight_flow::Event;
use backsight_flow::etm4::{Follower, Options};
use backsight_image::Code;

/// Code from one address on.
#[derive(Clone)]
pub struct Memory {
    pub base: u64,
    pub bytes: Vec<u8>,
}

impl Code for Memory {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.wrapping_sub(self.base)).ok()?;
        self.bytes.get(offset..).filter(|rest| !rest.is_empty())
    }
}

/// A64 or A32 code at 0x1000.
pub fn words(words: &[u32]) -> Memory {
    Memory { base: 0x1000, bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect() }
}

/// T32 code at 0x1000.
pub fn halfwords(halfwords: &[u16]) -> Memory {
    Memory { base: 0x1000, bytes: halfwords.iter().flat_map(|half| half.to_le_bytes()).collect() }
}

// A64 instructions.
pub const NOP: u32 = 0xD503_201F;
pub const RET: u32 = 0xD65F_03C0;
pub const BR: u32 = 0xD61F_0000;
pub const BLR: u32 = 0xD63F_0000;
pub const ERET: u32 = 0xD69F_03E0;
pub const ISB: u32 = 0xD503_3FDF;
pub const WFI: u32 = 0xD503_207F;
pub const SVC: u32 = 0xD400_0001;
pub const TSTART: u32 = 0xD523_3060;
pub const LDR: u32 = 0xF940_0000;
pub const STR: u32 = 0xF900_0000;
pub const UDF: u32 = 0;

/// B by a number of instructions.
pub const fn b(distance: i32) -> u32 {
    0x1400_0000 | distance as u32 & 0x03FF_FFFF
}

/// BL by a number of instructions.
pub const fn bl(distance: i32) -> u32 {
    0x9400_0000 | distance as u32 & 0x03FF_FFFF
}

/// CBZ by a number of instructions.
pub const fn cbz(distance: i32) -> u32 {
    0xB400_0000 | (distance as u32 & 0x7FFFF) << 5
}

/// Atoms from their letters.
pub fn atoms(letters: &str) -> Packet {
    let bits = letters.bytes().rev().fold(0, |bits, letter| bits << 1 | u32::from(letter == b'E'));
    Packet::Atoms(Atoms { bits, count: letters.len() as u8 })
}

pub fn address_of(address: u64, is: Is) -> AddressPacket {
    AddressPacket { address: Address(address), is, form: AddressForm::Long64 }
}

pub fn address(address: u64) -> Packet {
    Packet::Address(address_of(address, Is::Is0))
}

pub fn address_t32(address: u64) -> Packet {
    Packet::Address(address_of(address, Is::Is1))
}

pub fn source(address: u64) -> Packet {
    Packet::SourceAddress(address_of(address, Is::Is0))
}

pub fn context_of(level: u8, wide: bool) -> Context {
    Context { level, security: Security::NonSecure, wide, vmid: None, context_id: None }
}

pub fn context() -> Packet {
    Packet::Context(Some(context_of(1, true)))
}

pub fn context32() -> Packet {
    Packet::Context(Some(context_of(0, false)))
}

pub fn trace_info() -> Packet {
    Packet::TraceInfo(TraceInfo::default())
}

pub fn speculating(depth: u32) -> Packet {
    Packet::TraceInfo(TraceInfo { speculation: depth, ..TraceInfo::default() })
}

pub fn exception(number: u16) -> Packet {
    Packet::Exception(Exception { number, address: 0b01, fault_pending: false })
}

pub fn exception_at_target(number: u16) -> Packet {
    Packet::Exception(Exception { number, address: 0b10, fault_pending: false })
}

/// A configuration with some registers set.
pub fn etm4(registers: &[(&str, u32)]) -> Config {
    set(Config::etm4_default(), registers)
}

pub fn ete(registers: &[(&str, u32)]) -> Config {
    set(Config::ete_default(), registers)
}

fn set(mut config: Config, registers: &[(&str, u32)]) -> Config {
    for (name, value) in registers {
        config.set_register(name, *value).expect("a register");
    }
    config
}

/// With the return stack on.
pub fn with_return_stack() -> Config {
    etm4(&[("TRCCONFIGR", 1 << 12)])
}

/// With room for speculation.
pub fn with_speculation(depth: u32) -> Config {
    etm4(&[("TRCIDR8", depth)])
}

/// Follows packets that come behind an Async, a Trace Info, a context and an address of 0x1000.
pub fn follow(config: &Config, code: &Memory, packets: &[Packet]) -> Vec<String> {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000)];
    let mut lines = raw(config, code, Options::default(), &[&begin, packets].concat());
    assert_eq!(lines.remove(0), "start of trace");
    if lines.first().is_some_and(|line| line == "context: A64 EL1 Non-secure") {
        lines.remove(0);
    }
    lines
}

/// The same in 32-bit state, at `start`.
pub fn follow32(config: &Config, code: &Memory, start: Packet, packets: &[Packet]) -> Vec<String> {
    let begin = [Packet::Async, trace_info(), context32(), start];
    let mut lines = raw(config, code, Options::default(), &[&begin, packets].concat());
    lines.drain(..2);
    lines
}

/// Follows packets and nothing else.
pub fn raw(config: &Config, code: &Memory, options: Options, packets: &[Packet]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut follower = Follower::with_options(config, code, options);
    for (offset, &value) in packets.iter().enumerate() {
        let packet = Located { offset: offset as u64, length: 1, value };
        follower.push(packet, &mut |event: Located<Event>| lines.push(event.value.to_string()));
    }
    follower.finish(&mut |event: Located<Event>| lines.push(event.value.to_string()));
    lines
}
