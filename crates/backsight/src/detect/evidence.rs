//! How well bytes read as the trace of one protocol.

use std::cell::Cell;

use crate::OpenOptions;
use crate::protocol::Landmark;

/// Bytes that are decoded in one trial.
const MOST: usize = 1 << 16;
/// Packets of a stream without synchronisation that say anything about it.
const FEWEST_PACKETS: u64 = 8;

/// Bytes that may yet be decoded: no file makes more work than this, however many ways to read it there are.
#[derive(Debug)]
pub(super) struct Budget(Cell<u64>);

impl Budget {
    pub fn new(bytes: u64) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes some of it; `None` if that much is not there.
    fn take(&self, bytes: usize) -> Option<()> {
        self.0.set(self.0.get().checked_sub(bytes as u64)?);
        Some(())
    }
}

/// One way to read the bytes of a source, and what comes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    /// The protocol.
    pub protocol: &'static str,
    /// How its packets are framed, where they are.
    pub framing: Option<&'static str>,
    /// Settings that differ from the usual ones.
    pub config: Vec<&'static str>,
    /// Bytes that were looked at.
    pub total: u64,
    /// Bytes before the first synchronisation.
    pub before: u64,
    /// Bytes of packets.
    pub decoded: u64,
    /// Bytes that are no packets.
    pub bad: u64,
    /// Places where the stream says that it begins.
    pub syncs: u64,
    /// Packets.
    pub packets: u64,
    /// Only the regularity of the bytes speaks for it.
    pub is_guess: bool,
}

impl Fit {
    /// The share of the bytes after the first synchronisation that are packets, less what contradicts: a bad packet weighs
    /// as much as four good ones of its length, because nonsense decodes to many packets, too.
    pub fn share(&self) -> f64 {
        let after = self.total.saturating_sub(self.before).max(1) as f64;
        (self.decoded as f64 - 4.0 * self.bad as f64).max(0.0) / after
    }

    /// The same, where trace that begins late counts less.
    pub fn score(&self) -> f64 {
        let covered = 1.0 - self.before as f64 / self.total.max(1) as f64;
        self.share() * (0.5 + 0.5 * covered)
    }

    fn is_possible(&self) -> bool {
        let begins = if self.is_guess { self.packets >= FEWEST_PACKETS } else { self.syncs > 0 };
        begins && self.decoded >= 12 && self.share() >= 0.7
    }
}

/// A protocol to try, the settings that units have beside the usual ones, and whether it can be in CoreSight frames.
struct Trial {
    protocol: &'static str,
    framings: &'static [&'static str],
    settings: &'static [&'static [&'static str]],
    in_frames: bool,
    may_be: fn(&[u8]) -> bool,
}

const PLAIN: &[&str] = &["raw"];

/// The most specific first: of two that fit equally well, the first is taken.
const TRIALS: [Trial; 8] = [
    Trial {
        protocol: "etm4",
        framings: PLAIN,
        settings: ETM4_SETTINGS,
        in_frames: true,
        may_be: |bytes| has_async(bytes, 11),
    },
    Trial {
        protocol: "ete",
        framings: PLAIN,
        settings: ETM4_SETTINGS,
        in_frames: true,
        may_be: |bytes| has_async(bytes, 11),
    },
    Trial { protocol: "stm", framings: PLAIN, settings: &[], in_frames: true, may_be: has_stm_async },
    Trial {
        protocol: "ptm",
        framings: PLAIN,
        settings: &[
            &["context_id=8"],
            &["context_id=16"],
            &["context_id=32"],
            &["cyclecount=1"],
            &["cyclecount=1", "context_id=32"],
        ],
        in_frames: true,
        may_be: |bytes| has_async(bytes, 5),
    },
    Trial {
        protocol: "etm3",
        framings: PLAIN,
        settings: &[
            &["context_id=8"],
            &["context_id=16"],
            &["context_id=32"],
            &["cyclecount=1"],
            &["cyclecount=1", "context_id=32"],
            &["alternative_branches=1"],
            &["alternative_branches=1", "context_id=32"],
        ],
        in_frames: true,
        may_be: |bytes| has_async(bytes, 5),
    },
    Trial {
        protocol: "itm",
        framings: PLAIN,
        settings: &[],
        in_frames: true,
        may_be: |bytes| has_async(bytes, 5),
    },
    Trial {
        protocol: "ntrace",
        framings: PLAIN,
        settings: &[
            &["source_bits=1"],
            &["source_bits=2"],
            &["source_bits=3"],
            &["source_bits=4"],
            &["source_bits=6"],
        ],
        in_frames: false,
        may_be: ends_messages,
    },
    Trial {
        protocol: "etrace",
        framings: &["reference", "pulp", "encap", "siemens", "esp32"],
        settings: ETRACE_SETTINGS,
        in_frames: false,
        may_be: |bytes| bytes.len() >= 8,
    },
];

/// Sizes of the fields of context packets, and forms of cycle counts.
const ETM4_SETTINGS: &[&[&str]] = &[
    &["context_id=0"],
    &["vmid=0"],
    &["context_id=0", "vmid=0"],
    &["commopt=1"],
    &["commopt=0"],
    &["cyclecount=1"],
    &["cyclecount=1", "commopt=1"],
    &["q_elements=1"],
];

/// Widths that encoders have; parameters that packets do not depend on are left alone.
const ETRACE_SETTINGS: &[&[&str]] = &[
    &["dialect=cva6", "time_bytes=8"],
    &["iaddress_width_p=64"],
    &["iaddress_width_p=64", "ecause_width_p=5"],
    &["iaddress_width_p=64", "ecause_width_p=6"],
    &["iaddress_width_p=64", "privilege_width_p=3"],
    &["iaddress_width_p=64", "nocontext_p=0", "context_width_p=32"],
    &["iaddress_width_p=64", "nocontext_p=0", "context_width_p=32", "ecause_width_p=5"],
    &["nocontext_p=0", "context_width_p=32"],
    &["nocontext_p=0", "context_width_p=32", "ecause_width_p=5"],
    &["ecause_width_p=5"],
    &["privilege_width_p=3"],
];

/// The ways to read the bytes of one source that make sense, the best first.
pub(super) fn fits(bytes: &[u8], in_frames: bool, budget: &Budget) -> Vec<Fit> {
    let bytes = &bytes[..bytes.len().min(MOST)];
    let mut found = Vec::new();
    for trial in TRIALS.iter().filter(|trial| trial.in_frames || !in_frames) {
        if !(trial.may_be)(bytes) {
            continue;
        }
        for &framing in trial.framings {
            let framing = Some(framing).filter(|framing| *framing != "raw");
            found.extend(best_of(trial, framing, bytes, budget).filter(Fit::is_possible));
        }
    }
    if !in_frames && found.iter().all(|fit| fit.share() < 0.95) {
        found.extend(itm_without_synchronisation(bytes, budget).filter(Fit::is_possible));
    }
    // It is stable: of equal ones the more specific protocol stays before the other.
    found.sort_by(|one, other| other.score().total_cmp(&one.score()));
    found
}

/// Tries the settings of a protocol where the usual ones fit to some degree.
fn best_of(trial: &Trial, framing: Option<&'static str>, bytes: &[u8], budget: &Budget) -> Option<Fit> {
    let mut best = read(trial.protocol, framing, &[], bytes, budget)?;
    // Other settings do not make trace of nonsense; but these lose their synchronisation with wrong ones.
    let is_lost = matches!(trial.protocol, "ptm" | "etm3") || framing == Some("encap");
    let is_hopeless = best.decoded * 4 < best.total.saturating_sub(best.before);
    if best.bad == 0 || is_hopeless && !is_lost {
        return Some(best);
    }
    for &settings in trial.settings {
        let Some(fit) = read(trial.protocol, framing, settings, bytes, budget) else { continue };
        if fit.score() > best.score() {
            best = fit;
        }
        if best.bad == 0 {
            break;
        }
    }
    Some(best)
}

fn read(
    protocol: &'static str,
    framing: Option<&'static str>,
    config: &[&'static str],
    bytes: &[u8],
    budget: &Budget,
) -> Option<Fit> {
    budget.take(bytes.len())?;
    let mut options = OpenOptions::new().protocol(protocol);
    options = framing.iter().fold(options, |options, framing| options.framing(framing));
    options = config.iter().fold(options, |options, setting| options.config(setting));
    let capture = options.bytes(bytes.to_vec()).ok()?;
    let mut fit =
        Fit { protocol, framing, config: config.to_vec(), total: bytes.len() as u64, ..Fit::default() };
    let mut before = None;
    let summary = capture.packets().positions(false).run(|item| {
        match item.value.landmark(before.as_ref()) {
            Landmark::Sync => fit.syncs += 1,
            Landmark::Time(_) if protocol == "ntrace" => fit.syncs += 1,
            Landmark::Unsynchronised if item.offset == 0 => fit.before = u64::from(item.length),
            _ => {}
        }
        before = Some(item.value);
    });
    let summary = summary.ok()?;
    let accounting = summary.accounting();
    (fit.decoded, fit.bad, fit.packets) = (accounting.decoded, accounting.bad, summary.packets());
    // Messages that end where they should are evidence enough: some kinds of trace never synchronise.
    if protocol == "ntrace" && fit.packets >= 2 {
        fit.syncs = fit.syncs.max(1);
    }
    Some(fit)
}

/// Without synchronisation nearly everything reads as ITM: only that a few headers come again and again speaks for it.
fn itm_without_synchronisation(bytes: &[u8], budget: &Budget) -> Option<Fit> {
    budget.take(bytes.len())?;
    let capture = OpenOptions::new().protocol("itm").config("sync=none").bytes(bytes.to_vec()).ok()?;
    let mut headers = [0_u64; 256];
    let summary = capture.packets().run(|item| {
        if let Some(&header) = item.bytes().first() {
            headers[usize::from(header)] += 1;
        }
    });
    let summary = summary.ok()?;
    let (accounting, packets) = (summary.accounting(), summary.packets());
    let entropy: f64 = headers
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| count as f64 / packets.max(1) as f64)
        .map(|share| -share * share.log2())
        .sum();
    let fit = Fit {
        protocol: "itm",
        config: vec!["sync=none"],
        total: bytes.len() as u64,
        decoded: accounting.decoded,
        bad: accounting.bad,
        packets,
        is_guess: true,
        ..Fit::default()
    };
    Some(fit).filter(|_| entropy <= 3.0 && packets >= FEWEST_PACKETS)
}

/// Zeros, then 0x80: what Arm's trace units begin with.
fn has_async(bytes: &[u8], zeros: usize) -> bool {
    let mut run = 0;
    bytes.iter().any(|&byte| {
        let is_end = byte == 0x80 && run >= zeros;
        run = if byte == 0 { run + 1 } else { 0 };
        is_end
    })
}

/// Twenty-one nibbles of ones, then one of zero, at either half of a byte.
fn has_stm_async(bytes: &[u8]) -> bool {
    let mut run = 0;
    bytes.iter().any(|&byte| {
        let is_end = run >= 10 && (byte == 0x0F || byte & 0x0F == 0);
        run = if byte == 0xFF { run + 1 } else { 0 };
        is_end
    })
}

/// The lowest two bits of each byte of a Nexus message say whether a field or the message ends: one of the four values is
/// never sent.
fn ends_messages(bytes: &[u8]) -> bool {
    let reserved = bytes.iter().filter(|&&byte| byte & 3 == 2).count();
    let ends = bytes.iter().filter(|&&byte| byte & 3 == 3).count();
    bytes.len() >= 4 && reserved * 100 <= bytes.len() && ends >= 2 && ends < bytes.len()
}
