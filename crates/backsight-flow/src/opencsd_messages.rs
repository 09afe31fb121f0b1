//! Messages, events of hardware and their time as the lines that users of OpenCSD know.

use std::fmt;

use crate::{
    Channel, DwtEvent, Event, HardwareEvent, SoftwareMessage, SourceTime, SystemEvent, SystemEventKind,
    TimeRelation,
};

/// Has the listing a line for it?
pub(crate) fn is_listed(event: &Event) -> bool {
    !matches!(event, Event::Hardware(HardwareEvent::InCircuit(_)))
}

const fn overflow(lost: bool) -> &'static str {
    if lost { "ITM_OVERFLOW; " } else { "" }
}

pub(crate) fn software(message: &SoftwareMessage, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (value, width) = (message.value, usize::from(message.digits()));
    match message.channel {
        Channel::ExceptionLevel(level) => write!(f, "INSTRUMENTATION( EL{level}; 0x{value:016x})"),
        Channel::Port(port) => {
            let lost = overflow(message.is_after_loss());
            write!(f, "ITMTRACE({lost}ITM_SWIT (ch: {port:#x}; Data: 0x{value:0width$x}))")
        }
        channel => {
            f.write_str("SWTRACE(")?;
            master(channel, f)?;
            if width > 0 {
                write!(f, " 0x{value:0width$x};")?;
            }
            if message.is_marked() {
                f.write_str(" +Mrk")?;
            }
            time(message.time(), f)?;
            f.write_str(")")
        }
    }
}

fn master(channel: Channel, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match channel {
        Channel::Master { master, channel } => write!(f, "(Ma:0x{master:02x}; Ch:0x{channel:02x})"),
        _ => f.write_str("(Ma:0x??; Ch:0x??)"),
    }
}

fn time(time: Option<u64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    time.map_or(Ok(()), |time| write!(f, " [ TS=0x{time:012x}];"))
}

pub(crate) fn hardware(event: &HardwareEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *event {
        HardwareEvent::Dwt(DwtEvent { id, size, after_loss, value }) => {
            let (lost, width) = (overflow(after_loss), usize::from(2 * size));
            write!(f, "ITMTRACE({lost}ITM_DWT (desc: {id:#x}; Data: 0x{value:0width$x}))")
        }
        HardwareEvent::System(event) => system(&event, f),
        HardwareEvent::InCircuit(_) => f.write_str("CUSTOM()"),
    }
}

fn system(event: &SystemEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("SWTRACE(")?;
    master(event.channel, f)?;
    let (width, name) = match event.kind {
        SystemEventKind::Frequency => (8, "Freq"),
        SystemEventKind::Trigger => (2, "Trig"),
        SystemEventKind::MasterError => (2, "MErr"),
        SystemEventKind::GlobalError => (2, "GErr"),
        SystemEventKind::CrossSync => (2, "XSync"),
        SystemEventKind::Time => (0, ""),
    };
    if width > 0 {
        write!(f, " 0x{:0width$x}; {name}", event.value)?;
    }
    time(event.time(), f)?;
    f.write_str(")")
}

pub(crate) fn source_time(time: &SourceTime, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *time {
        SourceTime::Local { delta, total, relation, after_loss } => {
            let words = match relation {
                TimeRelation::Exact => "TS Sync",
                TimeRelation::TimestampDelayed => "TS Delay",
                TimeRelation::PacketDelayed => "Packet Delay",
                TimeRelation::BothDelayed => "TS and Packet Delay",
            };
            write!(f, "ITMTRACE({}ITM_TS_LOCAL ( TS delta: 0x{delta:08x}, ", overflow(after_loss))?;
            write!(f, "{{ {words}}}; TS cumulative: 0x{total:016x}))")
        }
        SourceTime::Global { value, after_loss } => {
            write!(f, "ITMTRACE({}ITM_TS_GLOBAL ( TS: 0x{value:016x}))", overflow(after_loss))
        }
    }
}
