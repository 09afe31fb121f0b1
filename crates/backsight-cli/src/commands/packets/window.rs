//! `packets --from`, `--to`, `--last` and `--around`: the packets between two moments; and those of what filters choose.

use backsight::decode::Consumer;
use backsight::listing::{Filter, PacketWriter, Printable};
use backsight::protocol::Kinds;
use backsight::{Capture, Item, Packet};

use super::{Packets, is_packet, say_limit, write_kinds};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::Output;
use crate::window::{Positions, Windows};

/// Text that is written together.
const ENOUGH: usize = 1 << 16;

/// Lists a window of each source, one after the other. Gives whether their trace is damaged.
pub(super) fn list(command: &Packets, capture: &Capture, mut output: Output) -> Result<bool> {
    let arguments = &command.capture;
    let quiet = command.output.quiet;
    let moments = index_file::moments(arguments, capture, quiet);
    // A bar on the line that is being written would help nobody.
    let decode = arguments.choose(capture.execution(), capture, quiet || output.is_terminal());
    let several = arguments.chooses_several(capture);
    let (mut windows, mut kinds) = (Windows::default(), Kinds::default());
    let (mut left, mut last_buffer) = (command.limit, None);
    let (chosen, code) = (command.filter.options(), capture.code()?);
    for (source, window) in command.window.of_sources(&moments, &decode)? {
        let Some(positions) = moments.positions_of(&decode, &source, window)? else { continue };
        if left == Some(0) {
            break;
        }
        let of = match (chosen.is_selective(), command.window.is_given()) {
            (false, _) => Positions(&positions).to_string(),
            (true, true) => format!("of {} {}", command.filter.words(), Positions(&positions)),
            (true, false) => format!("of {}", command.filter.words()),
        };
        let name = source.buffer().to_owned();
        if command.names_buffers(several) && last_buffer.replace(name.clone()).is_none_or(|last| last != name)
        {
            output.put(|out| writeln!(out, "# buffer {}", Printable(&name)))?;
        }
        if command.format().is_some_and(|format| format != backsight::listing::PacketFormat::Json) {
            let (name, id) = (source.name(), source.id());
            output.put(|out| writeln!(out, "# {} ({id}): packets {}", Printable(name), Printable(&of)))?;
        }
        let mut listed = Listed {
            writer: command.format().map(|format| PacketWriter::new(format).name_buffers(several)),
            kinds: &mut kinds,
            packets: 0,
            left,
            output: &mut output,
            failure: None,
        };
        let accounting = match chosen.is_selective() {
            false => moments.take_packets(capture.packets(), &source, positions, &mut listed)?,
            true => {
                let filter = Filter::new(&chosen, || code.of(&source))?;
                let decodes = (capture.packets(), decode.clone());
                moments.take_chosen_packets(decodes, &source, (window, filter), &mut listed)?
            }
        };
        left = listed.left;
        let packets = listed.packets;
        if let Some(failure) = listed.failure {
            return Err(failure);
        }
        windows.add_packets(&source, &of, (packets, accounting), quiet);
    }
    if command.format().is_none() {
        write_kinds(&kinds, &mut output)?;
    }
    let is_limited = left == Some(0);
    if !is_limited && command.window.is_given() {
        windows.finish(&command.window, capture)?;
    }
    output.finish()?;
    if is_limited && !quiet {
        say_limit(command);
    }
    Ok(windows.is_damaged())
}

/// Lists packets, or counts them by kind.
struct Listed<'o> {
    writer: Option<PacketWriter>,
    kinds: &'o mut Kinds,
    packets: u64,
    /// How many more are wanted.
    left: Option<u64>,
    output: &'o mut Output,
    failure: Option<Failure>,
}

impl Listed<'_> {
    fn flush(&mut self) {
        let Some(text) = self.writer.as_mut().and_then(Consumer::text) else { return };
        if self.failure.is_none() && !text.is_empty() {
            self.failure = self.output.put(|out| out.write_all(text)).err();
        }
        text.clear();
    }
}

impl Consumer<Packet> for Listed<'_> {
    fn item(&mut self, item: Item<'_, Packet>) {
        let count = u64::from(is_packet(&item.value));
        self.packets += count;
        self.left = self.left.map(|left| left.saturating_sub(count));
        match &mut self.writer {
            Some(writer) => writer.item(item),
            None => self.kinds.add(item.value.name(), 1, item.length.into()),
        }
        let is_long = |text: &mut Vec<u8>| text.len() >= ENOUGH;
        if self.writer.as_mut().and_then(Consumer::text).is_some_and(is_long) {
            self.flush();
        }
    }

    fn has_enough(&self) -> bool {
        self.left == Some(0) || self.failure.is_some()
    }

    fn finish(&mut self) {
        self.writer.iter_mut().for_each(Consumer::finish);
        self.flush();
    }
}
