//! `te_pkg`: the configuration of the encoder, taken from what the software encodes with.

use backsight_riscv::encap::{Encapsulated, Framer, Kind};
use backsight_riscv::etrace::{Dialect, MOST_COUNTED, Packet, QualStatus, Support, encode};
use backsight_riscv::ingress::Block;
use backsight_unit::cva6::{self, Fidelity};
use backsight_unit::etrace::{Tracer, UnitConfig};
use backsight_unit::riscv::ResyncMode;

use super::Options;

/// Entries of the queues between core and encoder, as in the thesis.
const RESOLVED_DEPTH: u32 = 16;
const BLOCK_DEPTH: u32 = 16;
/// Bits that count the half-words of a block.
const RETIRE: u32 = 17;

/// The text of the package.
pub fn package(options: &Options) -> String {
    let unit = &options.unit;
    let (params, switches, resync) = (&unit.params, &unit.options, unit.settings.resync);
    let resync_mode = if switches.resync_disabled { ResyncMode::Off } else { resync.mode };
    let limit = if resync_mode == ResyncMode::Off { 1 } else { resync.limit };
    let least = if resync_mode == ResyncMode::HalfWords { RETIRE + 1 } else { 0 };
    let count = (limit.ilog2() + 2).max(least);
    let frame = Frame::of(options);
    let support = support(options);
    let bit = |on: bool| if on { "1'b1" } else { "1'b0" }.to_owned();
    let number = |number: u32| number.to_string();
    let fields = [
        ("CONFIGURATION", words(options)),
        ("PORTS", number(options.ports.into())),
        ("IADDR", number(params.iaddress_width.into())),
        ("ECAUSE", number(params.ecause_width.into())),
        ("PRIV", number(params.privilege_width.into())),
        ("NARROW_ITYPE", bit(params.itype_width == 3)),
        ("LSB", number(params.iaddress_lsb.into())),
        ("CONTEXT", number(params.context_width.max(1).into())),
        ("HAS_CONTEXT", bit(params.context_bits() > 0)),
        ("TIME", number(params.time_width.max(1).into())),
        ("HAS_TIME", bit(params.time_bits() > 0)),
        ("FULL_ADDRESS", bit(switches.full_address)),
        ("IMPLICIT_EXCEPTION", bit(switches.implicit_exception)),
        ("SIJUMP", bit(switches.sijump)),
        ("IMPLICIT_RETURN", bit(switches.implicit_return)),
        ("BRANCH_PREDICTION", bit(switches.branch_prediction)),
        ("JUMP_CACHE", bit(switches.jump_target_cache)),
        ("KEEP_TABLES", bit(switches.resync_disabled)),
        ("STACK", number(params.return_stack_size.into())),
        ("CALLS", number(params.call_counter_size.into())),
        ("PREDICTOR", number(params.bpred_size.into())),
        ("CACHE", number(params.cache_size.into())),
        ("SUBFORMAT", number(params.f0s_width.into())),
        ("MOST_COUNTED", number(MOST_COUNTED)),
        ("SHALLOW", bit(unit.settings.shallow)),
        ("LOSSLESS", bit(options.lossless)),
        ("FOLLOWABLE", bit(unit.cva6 == Some(Fidelity::Followable))),
        ("RESYNC", number(resync_mode as u32)),
        ("COUNT", number(count)),
        ("RESYNC_LIMIT", format!("{count}'d{limit}")),
        ("FILTER_IADDR", bit(options.filter.iaddr)),
        ("FILTER_PRIV", bit(options.filter.privilege)),
        ("FILTER_CAUSE", bit(options.filter.cause)),
        ("FILTER_TVAL", bit(options.filter.tval)),
        ("FILTER_TVEC", bit(options.filter.tvec)),
        ("RESOLVED_DEPTH", number(RESOLVED_DEPTH)),
        ("BLOCK_DEPTH", number(BLOCK_DEPTH)),
        ("PACKET_DEPTH", number(options.packets.into())),
        ("BYTES", longest(options).to_string()),
        ("HEADER", number(frame.header)),
        ("PREFIX", number(frame.prefix.len() as u32)),
        ("PREFIX_BYTES", frame.prefix_text()),
        ("COUNTED", number(frame.counted)),
        ("SYNC_ZEROS", number(frame.sync_zeros)),
        ("SYNC_PERIOD", unit.sync_period.to_string()),
        ("BUS", number(options.bus.into())),
        ("SUPPORT", format!("{:016x}", support.bits)),
        ("SUPPORT_BYTES", support.bytes.to_string()),
        ("STATUS_AT", number(support.status_at)),
    ];
    fields.iter().fold(include_str!("sv/te_pkg.in").to_owned(), |text, (name, value)| {
        text.replace(&format!("@{name}@"), value)
    })
}

/// The configuration in a line for people.
pub fn words(options: &Options) -> String {
    let unit = &options.unit;
    let on: Vec<&str> = [
        ("full_address", unit.options.full_address),
        ("implicit_exception", unit.options.implicit_exception),
        ("sijump", unit.options.sijump),
        ("implicit_return", unit.options.implicit_return),
        ("branch_prediction", unit.options.branch_prediction),
        ("jump_target_cache", unit.options.jump_target_cache),
        ("shallow", unit.settings.shallow),
        ("context", unit.params.context_bits() > 0),
        ("time", unit.params.time_bits() > 0),
        ("lossless", options.lossless),
    ]
    .into_iter()
    .filter_map(|(name, on)| on.then_some(name))
    .collect();
    let algorithm = match unit.cva6 {
        None => "E-Trace",
        Some(Fidelity::Followable) => "E-Trace as for CVA6, followable",
        Some(Fidelity::Rtl) => "E-Trace as for CVA6",
    };
    let with = if on.is_empty() { String::new() } else { format!(", with {}", on.join(", ")) };
    let plural = if options.ports == 1 { "" } else { "s" };
    format!(
        "{algorithm}, {} commit port{plural}, {}-bit addresses{with}",
        options.ports, unit.params.iaddress_width
    )
}

/// Bytes of the longest payload that this hardware makes.
fn longest(options: &Options) -> usize {
    let params = &options.unit.params;
    let [field, address, cause] = [params.address_bits(), params.iaddress_width, params.ecause_width];
    let shared = params.privilege_width + params.time_bits() + params.context_bits();
    // The encoder for CVA6 sends a bit of sign with every address, and three flags after it.
    let trap = 5 + 2 + 1 + [shared, cause, field, address].map(usize::from).iter().sum::<usize>();
    let returns = if options.unit.options.implicit_return { params.irdepth_bits() } else { 0 };
    let reported = [field, returns].map(usize::from).iter().sum::<usize>() + 1 + 3;
    let branches = 2 + 5 + 31 + reported;
    let mut most = trap.max(branches).max(64);
    if options.unit.options.branch_prediction {
        most = most.max(2 + usize::from(params.f0s_width) + 32 + 2 + reported);
    }
    if options.unit.options.jump_target_cache {
        let head = 2 + usize::from(params.f0s_width) + usize::from(params.cache_size);
        most = most.max(head + 5 + 31 + 1 + usize::from(returns));
    }
    most.div_ceil(8)
}

/// A support packet without ienable and qual_status.
struct SupportBits {
    /// Sign-extended.
    bits: u64,
    bytes: usize,
    status_at: u32,
}

fn support(options: &Options) -> SupportBits {
    let unit = &options.unit;
    let announced = announced(unit);
    let packet = |qual_status| {
        let support = Support { ienable: false, qual_status, ..announced };
        encode(&Packet::Support(support), &unit.params, &unit.options)
    };
    let payload = packet(QualStatus::NoChange);
    let is_padded = unit.params.dialect == Dialect::Cva6;
    let bits = sign_extended(&payload, is_padded);
    let status = sign_extended(&packet(QualStatus::EndedRep), is_padded) ^ bits;
    SupportBits { bits, bytes: payload.len(), status_at: status.trailing_zeros() }
}

/// The support packet that the software's unit begins with.
fn announced(unit: &UnitConfig) -> Support {
    let mut sent = None;
    let mut sink = |packet: Packet| sent = sent.or(Some(packet));
    let block = Block { iretire: 2, ilastsize: 1, ..Block::default() };
    let UnitConfig { params, options, settings, .. } = *unit;
    // The configuration was checked: both can be built.
    match unit.cva6 {
        None => Tracer::new(params, options, settings).map(|mut tracer| tracer.push(&block, &mut sink)),
        Some(_) => cva6::Tracer::new(params, options, cva6::Settings::default())
            .map(|mut tracer| tracer.push(&block, &mut sink)),
    }
    .ok();
    match sent {
        Some(Packet::Support(support)) => support,
        _ => Support::default(),
    }
}

/// The bytes as a number; the top bit goes on unless they are padded with zeros.
fn sign_extended(bytes: &[u8], is_padded: bool) -> u64 {
    let fill = if !is_padded && bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xFF } else { 0 };
    let mut all = [fill; 8];
    all.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from);
    u64::from_le_bytes(all)
}

/// What stands before payloads.
struct Frame {
    /// Bits of the header above the length.
    header: u32,
    /// Bytes between header and payload.
    prefix: Vec<u8>,
    /// How many of these the length counts.
    counted: u32,
    /// Zeros of a synchronisation sequence before its last byte; 0: there is none.
    sync_zeros: u32,
}

impl Frame {
    /// Taken from a frame that the software makes.
    fn of(options: &Options) -> Self {
        let (mut framer, mut frame, mut sync) = (Framer::new(options.unit.framing), Vec::new(), Vec::new());
        let message = Encapsulated {
            source: options.unit.source,
            kind: Kind::Instruction,
            flow: 0,
            time: None,
            payload: &[0],
        };
        // The configuration was checked: such a packet fits.
        let _ = framer.frame(&message, &mut frame);
        framer.synchronise(&mut sync);
        let header = u32::from(frame.first().copied().unwrap_or(1));
        let prefix = frame.get(1..frame.len().saturating_sub(1)).unwrap_or_default().to_vec();
        let sync_zeros = sync.len().saturating_sub(1) as u32;
        Self { header: header >> 5, prefix, counted: (header & 0x1F) - 1, sync_zeros }
    }

    fn prefix_text(&self) -> String {
        let mut all = [0; 4];
        all.iter_mut().zip(&self.prefix).for_each(|(to, &from)| *to = from);
        format!("{:06x}", u32::from_le_bytes(all))
    }
}
