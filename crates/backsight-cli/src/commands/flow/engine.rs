//! From the bytes of one source to what was executed, for any protocol.

use std::collections::BTreeMap;

use backsight_arm::etm4;
use backsight_core::{Accounting, Located};
use backsight_flow as flow;
use backsight_flow::etm4::{Branches, Follower, Record};
use backsight_flow::{Event, Statistics};
use backsight_image::Image;
use backsight_isa::rv;
use backsight_riscv::ntrace;

use crate::etrace_stream::{EtraceStream, Found};
use crate::plan::Decoding;

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
    /// E-Trace through code: a follower for each hart.
    Etrace {
        /// Packets of all harts.
        decoder: Box<EtraceStream>,
        /// What a new hart's follower is made from.
        settings: Box<flow::etrace::Settings>,
        /// The code.
        image: &'i Image,
        /// Execution.
        followers: BTreeMap<u16, flow::etrace::Follower<'i, Image>>,
    },
    /// N-Trace through code.
    Ntrace {
        /// Messages.
        decoder: Box<ntrace::Decoder>,
        /// Execution.
        follower: Box<flow::ntrace::Follower<'i, Image>>,
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
                follower: Box::new(flow::ntrace::Follower::new(set_of(image), image)),
                statistics: Statistics::default(),
            }),
            Decoding::Etrace(etrace) => Some(Self::Etrace {
                decoder: Box::new(EtraceStream::new(etrace)),
                settings: Box::new(flow::etrace::Settings::new(etrace.params, etrace.options)),
                image,
                followers: BTreeMap::new(),
            }),
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
            Self::Etrace { decoder, settings, image, followers } => {
                decoder.feed(bytes, &mut |found| follow_etrace(found, settings, image, followers, sink));
            }
            Self::Ntrace { decoder, follower, statistics } => decoder.feed(bytes, &mut |packet| {
                follower.push(packet, &mut |event| {
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
            Self::Etrace { decoder, settings, image, followers } => {
                decoder.finish(&mut |found| follow_etrace(found, settings, image, followers, sink));
                for follower in followers.values_mut() {
                    follower.finish(&mut |event| sink(Item::Event(event)));
                }
            }
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
            Self::Etrace { .. } | Self::Ntrace { .. } => self.finish(sink),
        }
    }

    /// What became of the bytes.
    pub fn accounting(&self) -> Accounting {
        match self {
            Self::Etm4 { decoder, .. } | Self::Etm4Branches { decoder, .. } => decoder.accounting(),
            Self::Etrace { decoder, .. } => decoder.accounting(),
            Self::Ntrace { decoder, .. } => decoder.accounting(),
        }
    }

    /// What was counted; nothing in a list of branches.
    pub fn statistics(&self) -> Statistics {
        match self {
            Self::Etm4 { follower, .. } => *follower.statistics(),
            Self::Etm4Branches { .. } => Statistics::default(),
            Self::Etrace { followers, .. } => {
                let mut sum = Statistics::default();
                followers.values().for_each(|follower| sum += *follower.statistics());
                sum
            }
            Self::Ntrace { statistics, .. } => *statistics,
        }
    }
}

/// Most harts that are told apart: more are a sign of a wrong framing.
const MOST_HARTS: usize = 1024;

fn follow_etrace<'i>(
    found: Located<Found>,
    settings: &flow::etrace::Settings,
    image: &'i Image,
    followers: &mut BTreeMap<u16, flow::etrace::Follower<'i, Image>>,
    sink: &mut Sink<'_>,
) {
    let mut each = |event| sink(Item::Event(event));
    match found.value {
        Found::Instruction { source, packet, .. } => {
            if !followers.contains_key(&source) && followers.len() == MOST_HARTS {
                return;
            }
            let follower = followers
                .entry(source)
                .or_insert_with(|| flow::etrace::Follower::new(settings.clone(), image));
            follower.push(found.map(|_| packet), &mut each);
        }
        Found::BadPacket(_) | Found::BadFrame(_) => {
            let place = found.map(|_| ());
            followers.values_mut().for_each(|follower| follower.push_bad(place, &mut each));
        }
        Found::Other(..) | Found::Null => {}
    }
}

/// Whether the program has 32-bit or 64-bit registers, by its ELF file.
fn set_of(image: &Image) -> rv::Set {
    let narrow = image.modules().iter().filter_map(|module| module.elf()).any(|elf| !elf.wide);
    if narrow { rv::Set::RV32 } else { rv::Set::RV64 }
}
