//! Data trace and time.
//!
//! Loads and atomic operations may be split: the request has the address, a response with the same number the data.
//! They are reported as one access, when the data comes.

use std::collections::BTreeMap;

use backsight_image::Code;
use backsight_riscv::ingress::{DataAccess, DataRecord, Dtype};

use super::Follower;
use crate::sink::Sink;
use crate::{AccessKind, Event, TracedAccess};

/// Requests whose response has not come, by their number. There are no more than numbers of 16 bits.
pub(super) type Requests = BTreeMap<u16, DataAccess>;

/// Bytes of the widest access that one event reports: 2^n.
const WIDEST: u8 = 3;

impl<C: Code> Follower<C> {
    pub(super) fn take_data(&mut self, record: &DataRecord, sink: &mut impl Sink) {
        self.begin(sink);
        match *record {
            DataRecord::Access(access) => {
                let complete = match access.lrid {
                    // If the number is in use, the response to the earlier request was lost.
                    Some(lrid) => self.requests.insert(lrid, access),
                    None => Some(access),
                };
                if let Some(access) = complete {
                    self.access(&access, false, sink);
                }
            }
            DataRecord::Response { lrid, size, data, .. } => {
                let unknown = DataAccess { size, ..DataAccess::default() };
                let request = self.requests.remove(&lrid).unwrap_or(unknown);
                self.access(&DataAccess { data, ..request }, data.is_none(), sink);
            }
        }
    }

    /// Reports requests that nothing came back for.
    pub(super) fn finish_data(&mut self, sink: &mut impl Sink) {
        for access in std::mem::take(&mut self.requests).into_values() {
            self.access(&access, false, sink);
        }
    }

    fn access(&mut self, access: &DataAccess, failed: bool, sink: &mut impl Sink) {
        let size = 1 << access.size.min(WIDEST);
        // 128 bits are the most that data trace has.
        let parts = if access.size > WIDEST { 2 } else { 1 };
        for part in 0..parts {
            let word = |value: u128| (value >> (64 * part)) as u64;
            let traced = TracedAccess::new(kind(access.dtype), size)
                .at(access.address.map(|address| address.wrapping_add(8 * part)))
                .with_value(access.data.map(word))
                .with_operand(access.operand.map(word));
            self.emit(Event::Access(if failed { traced.failed() } else { traced }), sink);
        }
    }

    /// Takes the time in a frame: when the packet was sent, after what it reports.
    #[cold]
    pub(super) fn take_time(&mut self, time: Option<u64>, sink: &mut impl Sink) {
        if let Some(paused) = &mut self.paused {
            paused.time = time;
            return;
        }
        if let Some(value) = time.filter(|_| time != self.time) {
            self.begin(sink);
            self.time = time;
            self.emit(Event::Timestamp { value, cycles: None }, sink);
        }
    }
}

const fn kind(dtype: Dtype) -> AccessKind {
    match dtype {
        Dtype::Load => AccessKind::Load,
        Dtype::Store => AccessKind::Store,
        Dtype::CsrReadWrite => AccessKind::CsrReadWrite,
        Dtype::CsrReadSet => AccessKind::CsrReadSet,
        Dtype::CsrReadClear => AccessKind::CsrReadClear,
        Dtype::CasFailure => AccessKind::CompareAndSwapFailure,
        Dtype::Swap => AccessKind::AtomicSwap,
        Dtype::Add => AccessKind::AtomicAdd,
        Dtype::And => AccessKind::AtomicAnd,
        Dtype::Or => AccessKind::AtomicOr,
        Dtype::Xor => AccessKind::AtomicXor,
        Dtype::Max => AccessKind::AtomicMaximum,
        Dtype::Min => AccessKind::AtomicMinimum,
        Dtype::ConditionalStoreFailure => AccessKind::ConditionalStoreFailure,
    }
}
