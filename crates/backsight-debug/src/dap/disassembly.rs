//! Code as text: for the view of instructions, and in place of source that is not there. And its bytes.

use backsight::Result;
use backsight::core::{Address, AddressSpace, Isa, Printable};
use backsight::image::{Code as _, Disassembler};
use serde_json::{Value, json};

use super::message::Request;
use super::server::{Server, refusal};
use super::sources::reference_of;
use super::wire::base64;
use crate::code_text::{CodeText, line_in};
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
    fn view(&mut self, at: At, isa: Option<Isa>) -> Result<CodeText<'_>> {
        let what = self.replay.what(at)?;
        let (space, known) = what.map_or((AddressSpace::ANY, Isa::A64), |what| (what.space, what.isa));
        Ok(CodeText { code: self.replay.code(at)?, space, isa: isa.unwrap_or(known) })
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
        let addresses = view.addresses(address, MOST_LINES);
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
            let text = view.text(&mut disassembler, address).map_or_else(|| "?".to_owned(), |found| found.0);
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
        let Some((text, size)) = view.text(disassembler, address) else {
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
