//! Code as text: for the view of instructions, and in place of source that is not there. And its bytes.

use backsight::core::{Address, AddressSpace, Isa, Printable};
use backsight::image::{Code as _, Disassembler, Image, Mapping, Naming};
use backsight::isa::classify;
use backsight::{Result, SourceCode};
use serde_json::{Value, json};

use super::message::Request;
use super::server::{Server, refusal};
use super::sources::reference_of;
use super::wire::base64;
use crate::console::here;
use crate::replay::At;

/// Instructions of one answer, bytes of one answer.
const MOST_INSTRUCTIONS: i64 = 1 << 14;
const MOST_BYTES: i64 = 1 << 20;

/// Functions that are shown in place of source, and lines of one.
const MOST_LISTINGS: usize = 1 << 10;
const MOST_LINES: usize = 1 << 12;

/// An address in text, as the editor was told it.
///
/// # Errors
/// If it is none.
pub(super) fn reference(text: &str) -> Result<u64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| refusal(format!("`{}` is no address", Printable(text))))
}

/// Code at some time.
#[derive(Clone, Copy)]
struct View<'c> {
    code: SourceCode<'c>,
    space: AddressSpace,
    /// Where nobody says otherwise.
    isa: Isa,
}

impl<'c> View<'c> {
    fn names(&self, address: u64) -> &'c Image {
        self.code.names_at(self.space, Address(address))
    }

    /// The instruction set at an address: A32 and T32 may stand side by side.
    fn isa_at(&self, address: u64) -> Isa {
        match self.isa {
            Isa::A32 | Isa::T32 => match self.names(address).mapping(self.space, Address(address)) {
                Some(Mapping::Code(isa)) => isa,
                _ => self.isa,
            },
            isa => isa,
        }
    }

    /// The size of the instruction at an address.
    fn size(&self, address: u64) -> u64 {
        let isa = self.isa_at(address);
        let (opcode, length) = self.code.opcode_at(self.space, Address(address));
        let known = classify(isa, &opcode[..length], Address(address)).map(|found| u64::from(found.size));
        let least = if matches!(isa, Isa::A64 | Isa::A32) { 4 } else { 2 };
        known.filter(|size| *size > 0).unwrap_or(least)
    }

    /// The function at an address: where it begins.
    fn function(&self, address: u64) -> Option<u64> {
        Some(self.names(address).symbolise(self.space, Address(address))?.start.0)
    }

    /// Where so many instructions before an address begin, the nearest last; fewer where nobody says where they begin.
    fn before(&self, address: u64, count: usize) -> Vec<u64> {
        if let Isa::A64 = self.isa {
            let all = (1..=count as u64).rev().filter_map(|back| address.checked_sub(4 * back));
            return all.collect();
        }
        // Sizes vary: from the beginning of each function on.
        let (mut starts, mut to) = (Vec::new(), address);
        while starts.len() < count
            && let Some(last) = to.checked_sub(1)
            && let Some(first) = self.function(last)
        {
            let first = first.max(to.saturating_sub(4 * MOST_INSTRUCTIONS as u64));
            let (mut piece, mut at) = (Vec::new(), first);
            while at < to {
                piece.push(at);
                at = at.saturating_add(self.size(at));
            }
            piece.append(&mut starts);
            (starts, to) = (piece, first);
        }
        starts.split_off(starts.len().saturating_sub(count))
    }
}

/// What an instruction is, in words, and how many bytes it has.
fn text_at(view: &View<'_>, disassembler: &mut Disassembler, address: u64) -> Option<(String, u64)> {
    let (isa, names) = (view.isa_at(address), view.names(address));
    let found = disassembler.disassemble_at(isa, &view.code, names, view.space, Address(address))?;
    let name =
        |target| view.code.names_at(view.space, target).describe(view.space, target, Naming::Demangled);
    let text = found.with_name(|target| name(target).map(|name| Printable(&name).to_string()));
    Some((text, u64::from(found.size).max(1)))
}

/// A function in place of its source.
struct Listing {
    at: At,
    space: AddressSpace,
    isa: Isa,
    name: String,
    /// Of each line, and after the last.
    addresses: Vec<u64>,
}

impl Listing {
    fn line(&self, address: u64) -> Option<u32> {
        line_in(&self.addresses, address)
    }
}

/// The line of the instruction that an address is in: it may be in the midst of one.
fn line_in(addresses: &[u64], address: u64) -> Option<u32> {
    let line = addresses.partition_point(|start| *start <= address);
    (1..addresses.len()).contains(&line).then_some(line as u32)
}

/// Those that the editor was told of: their references count from 1.
#[derive(Default)]
pub(super) struct Listings(Vec<Listing>);

impl Listings {
    /// The instruction of a line.
    pub fn address(&self, reference: usize, line: u32) -> Option<u64> {
        let listing = self.0.get(reference.checked_sub(1)?)?;
        let (_, lines) = listing.addresses.split_last()?;
        lines.get(usize::try_from(line).ok()?.checked_sub(1)?).copied()
    }
}

impl Server<'_, '_> {
    fn view(&mut self, at: At, isa: Option<Isa>) -> Result<View<'_>> {
        let what = self.replay.what(at)?;
        let (space, known) = what.map_or((AddressSpace::ANY, Isa::A64), |what| (what.space, what.isa));
        Ok(View { code: self.replay.code(at)?, space, isa: isa.unwrap_or(known) })
    }

    /// The function at an address in place of its source: its name, its reference, and the line of the instruction.
    pub(super) fn listing(&mut self, at: At, address: u64) -> Result<Option<(String, usize, u32)>> {
        let what = self.replay.what(at)?;
        let Some(what) = what else { return Ok(None) };
        let known = self.listings.0.iter().enumerate().find_map(|(index, listing)| {
            let is_same = listing.at.source == at.source && listing.space == what.space;
            let line = listing.line(address).filter(|_| is_same)?;
            Some((listing.name.clone(), index + 1, line))
        });
        if known.is_some() || self.listings.0.len() >= MOST_LISTINGS {
            return Ok(known);
        }
        let view = self.view(at, None)?;
        let start = view.function(address);
        let is_same = |one: u64| start.is_none_or(|start| view.function(one) == Some(start));
        let list = |from: u64, most: usize| {
            let (mut addresses, mut next) = (Vec::new(), from);
            while addresses.len() < most
                && view.code.opcode_at(view.space, Address(next)).1 > 0
                && is_same(next)
            {
                addresses.push(next);
                next = next.saturating_add(view.size(next));
            }
            addresses.push(next);
            addresses
        };
        // Of what is longer, and of what has no name, what follows.
        let mut addresses = start.map(|start| list(start, MOST_LINES)).unwrap_or_default();
        if line_in(&addresses, address).is_none() {
            addresses = list(address, 64);
        }
        let Some(line) = line_in(&addresses, address) else { return Ok(None) };
        let symbol = view.names(address).symbolise(view.space, Address(address));
        let name =
            symbol.map_or_else(|| Address(address).to_string(), |symbol| Printable(symbol.name).to_string());
        let (space, isa) = (view.space, view.isa);
        self.listings.0.push(Listing { at, space, isa, name: name.clone(), addresses });
        Ok(Some((name, self.listings.0.len(), line)))
    }

    /// The text in place of source.
    pub(super) fn source(&mut self, request: &Request) -> Result<Value> {
        let plain = request.number("sourceReference").and_then(|number| usize::try_from(number).ok());
        let number = reference_of(request).or(plain).and_then(|number| number.checked_sub(1));
        let Some(listing) = number.and_then(|number| self.listings.0.get(number)) else {
            return Err(refusal("there is no such source: files are read by the editor"));
        };
        let (at, isa, mut addresses) = (listing.at, listing.isa, listing.addresses.clone());
        addresses.pop();
        let view = self.view(at, Some(isa))?;
        let (mut disassembler, mut content) = (Disassembler::default(), String::new());
        let mut before = None;
        for address in addresses {
            let text =
                text_at(&view, &mut disassembler, address).map_or_else(|| "?".to_owned(), |found| found.0);
            content += &format!("{address:#x}  {text}");
            let line = view.names(address).source_row(view.space, Address(address)).map(|row| row.line);
            if let Some(line) = line.filter(|line| before.as_ref() != Some(line)) {
                content += &format!("    ; {}:{}", Printable(&line.file), line.line);
                before = Some(line);
            }
            content.push('\n');
        }
        Ok(json!({"content": content, "mimeType": "text/x-asm"}))
    }

    /// Instructions around an address.
    pub(super) fn disassemble(&mut self, request: &Request) -> Result<Value> {
        let base = reference(request.text("memoryReference").unwrap_or_default())?;
        let base = base.wrapping_add_signed(request.number("offset").unwrap_or(0));
        let skipped = request.number("instructionOffset").unwrap_or(0);
        let count = request.number("instructionCount").unwrap_or(0);
        if !(0..=MOST_INSTRUCTIONS).contains(&count) || skipped.saturating_abs() > MOST_INSTRUCTIONS {
            return Err(refusal(format!("no more than {MOST_INSTRUCTIONS} instructions are shown at once")));
        }
        let at = here(self.replay)?;
        let view = self.view(at, None)?;
        let (count, back) = (count as usize, skipped.min(0).unsigned_abs() as usize);
        let before = view.before(base, back);
        let mut all: Vec<Option<u64>> = vec![None; back - before.len()];
        all.extend(before.into_iter().map(Some));
        let mut next = base;
        let wanted = count + skipped.max(0) as usize;
        while all.len() < wanted {
            all.push(Some(next));
            next = next.wrapping_add(view.size(next));
        }
        let mut disassembler = Disassembler::default();
        let mut list = Vec::new();
        let shown = all.into_iter().skip(skipped.max(0) as usize).take(count);
        for address in shown.collect::<Vec<_>>() {
            list.push(match address {
                Some(address) => self.instruction(at, address, &mut disassembler)?,
                None => json!({"address": "0x0", "instruction": "?", "presentationHint": "invalid"}),
            });
        }
        Ok(json!({"instructions": list}))
    }

    fn instruction(&mut self, at: At, address: u64, disassembler: &mut Disassembler) -> Result<Value> {
        let view = self.view(at, None)?;
        let Some((text, size)) = text_at(&view, disassembler, address) else {
            let address = format!("{address:#x}");
            return Ok(json!({"address": address, "instruction": "?", "presentationHint": "invalid"}));
        };
        let (opcode, length) = view.code.opcode_at(view.space, Address(address));
        let bytes = opcode[..length.min(size as usize)].iter().map(|byte| format!("{byte:02x}"));
        let names = view.names(address);
        let symbol = names.symbolise(view.space, Address(address)).filter(|symbol| symbol.offset == 0);
        let row = names.source_row(view.space, Address(address)).filter(|row| row.line.line > 0);
        let mut body = json!({
            "address": format!("{address:#x}"), "instructionBytes": bytes.collect::<Vec<_>>().join(" "), "instruction": text,
        });
        if let Some(symbol) = symbol {
            body["symbol"] = Printable(symbol.name).to_string().into();
        }
        if let Some(row) = row
            && let Some(path) = self.sources.path(&row.line.file)
        {
            body["line"] = self.client.line(row.line.line).into();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            body["location"] = json!({"name": name, "path": path});
        }
        Ok(body)
    }

    /// Bytes that are known.
    pub(super) fn read_memory(&mut self, request: &Request) -> Result<Value> {
        let base = reference(request.text("memoryReference").unwrap_or_default())?;
        let base = base.wrapping_add_signed(request.number("offset").unwrap_or(0));
        let count = request.number("count").unwrap_or(0);
        if !(0..=MOST_BYTES).contains(&count) {
            return Err(refusal(format!("no more than {MOST_BYTES} bytes are read at once")));
        }
        let at = here(self.replay)?;
        let bytes = self.replay.memory(at, base, count as usize)?;
        let known: Vec<u8> = bytes.iter().copied().map_while(|byte| byte).collect();
        let unknown = bytes.iter().skip(known.len()).take_while(|byte| byte.is_none()).count();
        let mut body = json!({"address": format!("{base:#x}"), "data": base64(&known)});
        if unknown > 0 {
            body["unreadableBytes"] = unknown.into();
        }
        Ok(body)
    }
}
