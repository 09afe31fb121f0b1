//! Packets to bytes: frames, and the synchronisation sequences between them.

use backsight_riscv::encap::Kind;
use backsight_riscv::etrace::{Config, Encoder, Message, Packet, Params, Payload};

use super::{UnitConfig, UnitError};

pub(super) struct Transport {
    encoder: Encoder,
    source: u16,
    /// Bytes between synchronisation sequences; 0: only one at the beginning.
    period: u64,
    /// Bytes since the last synchronisation sequence; `None`: there was none yet.
    since_sync: Option<u64>,
}

impl Transport {
    /// A transport that can carry every packet of these parameters.
    pub fn new(config: &UnitConfig) -> Result<Self, UnitError> {
        let UnitConfig { params, options, framing, source, sync_period: period, .. } = *config;
        let mut encoder = Encoder::new(&Config { params, options, framing });
        let longest = [0; Params::MOST_PAYLOAD];
        let longest = longest.get(..params.longest_payload()).unwrap_or(&longest);
        encoder
            .put_payload(source, Kind::Instruction, None, longest, &mut Vec::new())
            .map_err(UnitError::Framing)?;
        Ok(Self { encoder, source, period, since_sync: None })
    }

    pub fn send_packet(&mut self, packet: Packet, out: &mut Vec<u8>) {
        let before = self.begin(out);
        let message = Message { source: Some(self.source), ..packet.into() };
        let sent = self.encoder.put(&message, out).is_ok();
        debug_assert!(sent, "every packet fits");
        self.end(before, out);
    }

    #[inline]
    pub fn send_payload(&mut self, payload: &Payload, out: &mut Vec<u8>) {
        let before = self.begin(out);
        let sent = self.encoder.put_payload(self.source, Kind::Instruction, None, payload, out).is_ok();
        debug_assert!(sent, "every packet fits");
        self.end(before, out);
    }

    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        let due = self.period != 0 && self.since_sync.is_some_and(|bytes| bytes >= self.period);
        if due || self.since_sync.is_none() {
            self.encoder.synchronise(out);
            self.since_sync = Some(0);
        }
        before
    }

    #[inline]
    fn end(&mut self, before: usize, out: &[u8]) {
        let written = (out.len() - before) as u64;
        self.since_sync = self.since_sync.map(|bytes| bytes + written);
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.encoder.finish(out);
    }
}
