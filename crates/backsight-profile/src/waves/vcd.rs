//! Value change dumps: text.

use std::io::{self, Write};

use super::{Head, Value, WaveWriter, identifiers};
use crate::export::names;

pub(super) struct Writer<'o> {
    out: &'o mut dyn Write,
    /// Code and width of each wave.
    signals: Vec<(String, Option<u8>)>,
    time: Option<u64>,
    line: String,
}

impl<'o> Writer<'o> {
    pub fn new(out: &'o mut dyn Write, head: &Head) -> io::Result<Self> {
        writeln!(out, "$version backsight $end\n$comment")?;
        for line in &head.comment {
            // A dollar begins a word of the format.
            writeln!(out, "  {}", names::one_line(line).replace('$', "_"))?;
        }
        writeln!(out, "$end\n$timescale 1 ns $end")?;
        let mut signals = Vec::new();
        let scopes = identifiers(head.lanes.iter().map(|(name, _)| name.as_str()));
        for (scope, (_, waves)) in scopes.iter().zip(&head.lanes) {
            writeln!(out, "$scope module {scope} $end")?;
            for (name, wave) in identifiers(waves.iter().map(|wave| wave.name.as_str())).iter().zip(waves) {
                let code = code(signals.len());
                match wave.bits {
                    Some(bits) => {
                        writeln!(out, "$var wire {bits} {code} {name} [{}:0] $end", bits.max(1) - 1)?
                    }
                    None => writeln!(out, "$var string 1 {code} {name} $end")?,
                }
                signals.push((code, wave.bits));
            }
            writeln!(out, "$upscope $end")?;
        }
        writeln!(out, "$enddefinitions $end")?;
        Ok(Self { out, signals, time: None, line: String::new() })
    }
}

impl WaveWriter for Writer<'_> {
    fn change(&mut self, time: u64, signal: usize, value: &Value) -> io::Result<()> {
        let Some((code, bits)) = self.signals.get(signal) else { return Ok(()) };
        if self.time.replace(time) != Some(time) {
            writeln!(self.out, "#{time}")?;
        }
        match (value, bits) {
            (Value::Text(text), _) => writeln!(self.out, "s{} {code}", word(text)),
            (Value::Unknown, None) => writeln!(self.out, "s {code}"),
            (Value::Unknown, Some(_)) => writeln!(self.out, "bx {code}"),
            (Value::Number(number, unknown), bits) => {
                self.line.clear();
                digits(*number, *unknown, bits.unwrap_or(64), &mut self.line);
                // Zeros at the beginning are left out.
                let short = self.line.trim_start_matches('0');
                writeln!(self.out, "b{} {code}", if short.is_empty() { "0" } else { short })
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The bits of a number, the highest first.
pub(super) fn digits(number: u128, unknown: u128, bits: u8, digits: &mut String) {
    digits.extend((0..u32::from(bits).min(128)).rev().map(|bit| {
        match (unknown >> bit & 1, number >> bit & 1) {
            (1, _) => 'x',
            (_, 1) => '1',
            _ => '0',
        }
    }));
}

/// The code of a wave: characters that are seen, the fewest that tell them apart.
fn code(mut number: usize) -> String {
    let mut code = String::new();
    loop {
        code.push(char::from(b'!' + (number % 94) as u8));
        number /= 94;
        if number == 0 {
            return code;
        }
        number -= 1;
    }
}

/// Text that ends at the next blank.
fn word(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => names::one_line(text).chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect(),
    }
}
