//! From the bytes of one source to what was executed, for any protocol.

use backsight_arm::etm4;
use backsight_core::{Accounting, Located};
use backsight_flow as flow;
use backsight_flow::etm4::{Branches, Follower, Record};
use backsight_flow::{Event, Statistics};
use backsight_image::Image;
use backsight_isa::rv;
use backsight_riscv::ntrace;

use super::harts::Harts;
use crate::plan::{Decoding, Etrace};

/// What comes out.
pub enum Item {
    /// Something about the execution.
    Event(Located<Event>),
    /// A line of the list of branches.
    Record(Record),
}

/// Receives what was executed.
pub type Sink<'a> = dyn FnMut(Item) + 'a;

/// How to follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Stop at strong evidence that the image is wrong.
    pub strict_image: bool,
    /// List branches from the packets alone; the image is not used.
    pub branches: bool,
}

/// Decoder and follower of one source.
pub enum Engine<'i> {
    /// ETMv4 or ETE through code.
    Etm4 {
        /// Packets.
        decoder: Box<etm4::Decoder>,
        /// Execution.
        follower: Box<Follower<&'i Image>>,
    },
    /// ETMv4 or ETE without code.
    Etm4Branches {
        /// Packets.
        decoder: Box<etm4::Decoder>,
        /// Branches.
        branches: Box<Branches>,
    },
    /// E-Trace through code.
    Etrace(Box<Harts<'i>>),
    /// N-Trace through code.
    Ntrace {
        /// Messages.
        decoder: Box<ntrace::Decoder>,
        /// Execution.
        follower: Box<flow::ntrace::Follower<&'i Image>>,
        /// What was counted.
        statistics: Statistics,
    },
}

impl<'i> Engine<'i> {
    /// The engine for a source, if there is one.
    pub fn new(decoding: &Decoding, image: &'i Image, manner: Manner) -> Option<Self> {
        match decoding {
            Decoding::Etm4(config) if manner.branches => Some(Self::Etm4Branches {
                decoder: Box::new(etm4::Decoder::new(config)),
                branches: Box::new(Branches::new(config)),
            }),
            Decoding::Etm4(config) => {
                let options = flow::etm4::Options {
                    strict_image: manner.strict_image,
                    ..flow::etm4::Options::default()
                };
                Some(Self::Etm4 {
                    decoder: Box::new(etm4::Decoder::new(config)),
                    follower: Box::new(Follower::with_options(config, image, options)),
                })
            }
            Decoding::Ntrace(config) => Some(Self::Ntrace {
                decoder: Box::new(ntrace::Decoder::new(config)),
                follower: Box::new(flow::ntrace::Follower::new(
                    set_of(image).unwrap_or(rv::Set::RV64),
                    image,
                )),
                statistics: Statistics::default(),
            }),
            Decoding::Etrace(etrace) => Some(Self::Etrace(Box::new(harts(etrace, image)))),
            Decoding::NotDecoded(_) => None,
        }
    }

    /// Takes more bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) {
        match self {
            Self::Etm4 { decoder, follower } => {
                decoder
                    .feed(bytes, &mut |packet| follower.push(packet, &mut |event| sink(Item::Event(event))));
            }
            Self::Etm4Branches { decoder, branches } => decoder.feed(bytes, &mut |packet| {
                branches.push(packet, &mut |record| sink(Item::Record(record.value)));
            }),
            Self::Etrace(harts) => harts.feed(bytes, &mut |event| sink(Item::Event(event))),
            Self::Ntrace { decoder, follower, statistics } => decoder.feed(bytes, &mut |packet| {
                follower.push(packet, &mut |event: Located<Event>| {
                    statistics.count(&event.value);
                    sink(Item::Event(event));
                });
            }),
        }
    }

    /// The stream ends.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        match self {
            Self::Etm4 { decoder, follower } => {
                decoder.finish(&mut |packet| follower.push(packet, &mut |event| sink(Item::Event(event))));
                follower.finish(&mut |event| sink(Item::Event(event)));
            }
            Self::Etm4Branches { decoder, branches } => {
                decoder.finish(&mut |packet| {
                    branches.push(packet, &mut |record| sink(Item::Record(record.value)));
                });
                branches.finish(&mut |record| sink(Item::Record(record.value)));
            }
            Self::Etrace(harts) => harts.finish(&mut |event| sink(Item::Event(event))),
            Self::Ntrace { decoder, follower, statistics } => {
                let mut each = |event: Located<Event>| {
                    statistics.count(&event.value);
                    sink(Item::Event(event));
                };
                decoder.finish(&mut |packet| follower.push(packet, &mut each));
                follower.finish(&mut each);
            }
        }
    }

    /// The stream does not continue here.
    pub fn reset(&mut self, sink: &mut Sink<'_>) {
        match self {
            Self::Etm4 { decoder, follower } => {
                decoder.reset(&mut |packet| follower.push(packet, &mut |event| sink(Item::Event(event))));
                follower.reset();
            }
            Self::Etm4Branches { decoder, branches } => {
                decoder.reset(&mut |packet| {
                    branches.push(packet, &mut |record| sink(Item::Record(record.value)));
                });
                branches.reset();
            }
            Self::Etrace(_) | Self::Ntrace { .. } => self.finish(sink),
        }
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        match self {
            Self::Etm4 { decoder, .. } | Self::Etm4Branches { decoder, .. } => decoder.accounting(),
            Self::Etrace(harts) => harts.accounting(),
            Self::Ntrace { decoder, .. } => decoder.accounting(),
        }
    }

    /// What a user should know about the result.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Etrace(harts) => harts.notes(),
            _ => Vec::new(),
        }
    }

    /// What was counted; nothing in a list of branches.
    pub fn statistics(&self) -> Statistics {
        match self {
            Self::Etm4 { follower, .. } => *follower.statistics(),
            Self::Etm4Branches { .. } => Statistics::default(),
            Self::Etrace(harts) => harts.statistics(),
            Self::Ntrace { statistics, .. } => *statistics,
        }
    }
}

/// The engine of an E-Trace stream.
pub fn harts<'i>(etrace: &Etrace, image: &'i Image) -> Harts<'i> {
    Harts::new(&etrace.config(), etrace_settings(etrace, image), image)
}

/// How a source is followed. What the program's ELF file says of its registers comes before the width of addresses.
fn etrace_settings(etrace: &Etrace, image: &Image) -> flow::etrace::Settings {
    let mut settings = flow::etrace::Settings::from(&etrace.config());
    settings.handlers = etrace.handlers.clone();
    settings.set = set_of(image).unwrap_or(settings.set);
    settings
}

/// Whether the program has 32-bit or 64-bit registers, by its ELF files.
fn set_of(image: &Image) -> Option<rv::Set> {
    let mut wide = image.modules().iter().filter_map(|module| module.elf()).map(|elf| elf.wide).peekable();
    wide.peek()?;
    Some(if wide.all(|wide| wide) { rv::Set::RV64 } else { rv::Set::RV32 })
}
