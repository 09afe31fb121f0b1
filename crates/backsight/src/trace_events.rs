//! Events of the operating system that came in the trace itself, as messages of an STM beside the trace units.
//!
//! They have to be known before anything is decoded: what they say of a time may be written after it, and a source that
//! they configure cannot be read without them. So the STM is read once when the capture is opened, and its events join
//! those of the event log.

use backsight_capture::Capture as Description;
use backsight_capture::events::EventLog;
use backsight_capture::events::message::{EVENT_CHANNEL, EventChannel, MessageCounts, MessageLog};
use backsight_core::Located;
use backsight_flow::stm::Follower;
use backsight_flow::{Channel, Event, HardwareEvent, SystemEventKind};

use crate::{Capture, Packet, Result};

/// Reads the events that the trace of a capture carries. Gives its description with them; `None` if there is no source of
/// events.
pub(crate) fn read(capture: &Capture) -> Option<Description> {
    let mut description = None;
    for source in &capture.description.sources {
        let Some(channel) = source.option(EVENT_CHANNEL).and_then(|text| text.parse().ok()) else { continue };
        let id = source.id.unwrap_or_default().get().into();
        for buffer in source.buffers.iter().filter_map(|&buffer| capture.buffers.get(buffer)) {
            let description = description.get_or_insert_with(|| Description::clone(&capture.description));
            if buffer.size().is_none() {
                description.warnings.push(format!(
                    "source {}: its events are not used: buffer {} can be read only once",
                    source.name,
                    buffer.name()
                ));
                continue;
            }
            match events_of(capture, buffer.name(), id, channel) {
                Ok((log, counts)) => {
                    description.warnings.extend(words(&source.name, counts));
                    description.take_events(log);
                }
                Err(error) => {
                    description
                        .warnings
                        .push(format!("source {}: its events are not used: {error}", source.name));
                }
            }
        }
    }
    description
}

/// What is missing, in words.
fn words(source: &str, counts: MessageCounts) -> Option<String> {
    let MessageCounts { messages, damaged, lost } = counts;
    (damaged > 0 || lost > 0 || messages == 0).then(|| {
        format!(
            "source {source}: {messages} events in the trace, {damaged} messages damaged, {lost} events lost"
        )
    })
}

fn events_of(
    capture: &Capture,
    buffer: &str,
    id: u64,
    channel: EventChannel,
) -> Result<(EventLog, MessageCounts)> {
    let (mut log, mut follower) = (MessageLog::new(), Follower::new());
    let decode = capture.packets().buffer(buffer).id(id).positions(false).any_order();
    decode.run(|item| {
        let Packet::Stm(value) = item.value else { return };
        let packet = Located { offset: item.offset, length: item.length, value };
        follower.push(packet, &mut |event: Located<Event>| take(&mut log, channel, event.value));
    })?;
    Ok(log.finish())
}

fn take(log: &mut MessageLog, EventChannel { master, channel }: EventChannel, event: Event) {
    match event {
        Event::Software(written) if written.channel == (Channel::Master { master, channel }) => {
            log.push(written.bytes(), written.is_marked(), written.time());
        }
        Event::Hardware(HardwareEvent::System(event)) => {
            let is_own = match event.channel {
                Channel::Master { master: other, .. } => master == other,
                _ => true,
            };
            match event.kind {
                SystemEventKind::GlobalError => log.lose(),
                SystemEventKind::MasterError if is_own => log.lose(),
                _ => {}
            }
        }
        Event::NoSync(_) => log.lose(),
        _ => {}
    }
}
