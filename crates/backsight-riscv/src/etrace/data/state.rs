//! What encoder and decoder remember alike: the latest address and data of each size.

use alloc::collections::VecDeque;

use super::super::{DataOptions, Params, Payload};
use super::encode::shortest;
use super::layout::{Layout, cut};
use super::{AccessPacket, BadData, Coding, DataCoding, Packet, ResponsePacket, Traced};
use crate::ingress::{DataAccess, DataRecord};

/// Sizes of memory accesses, and one more for CSRs.
const SLOTS: usize = 6;
const CSR: usize = 5;
/// Atomic requests without a response that are remembered.
const MOST_REQUESTS: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq)]
struct References {
    address: [Option<u64>; SLOTS],
    data: [Option<u128>; SLOTS],
}

impl References {
    fn address(&self, slot: usize) -> Option<u64> {
        self.address.get(slot).copied().flatten()
    }

    fn data(&self, slot: usize) -> Option<u128> {
        self.data.get(slot).copied().flatten()
    }

    fn note(&mut self, slot: usize, address: Option<u64>, data: Option<u128>) {
        if let (Some(entry), Some(_)) = (self.address.get_mut(slot), address) {
            *entry = address;
        }
        if let (Some(entry), Some(_)) = (self.data.get_mut(slot), data) {
            *entry = data;
        }
    }

    fn code_data(&self, data: u128, slot: usize, size: u8, coding: DataCoding) -> Option<u128> {
        Some(match coding {
            DataCoding::Full => data,
            DataCoding::Xor => data ^ self.data(slot)?,
            DataCoding::Differential => cut(data.wrapping_sub(self.data(slot)?), size),
        })
    }

    fn data_of(&self, field: u128, slot: usize, size: u8, coding: DataCoding) -> Option<u128> {
        Some(match coding {
            DataCoding::Full => field,
            DataCoding::Xor => field ^ self.data(slot)?,
            DataCoding::Differential => cut(field.wrapping_add(self.data(slot)?), size),
        })
    }
}

/// CSRs share one size, whatever it is.
fn slot(csr: bool, size: u8) -> usize {
    if csr { CSR } else { usize::from(size) }
}

fn wrap(address: u64, layout: &Layout) -> u64 {
    address & (u64::MAX >> (64 - layout.address_width))
}

/// Codes accesses, in as few bytes as the options allow.
#[derive(Clone, Debug)]
pub struct Encoder {
    layout: Layout,
    references: References,
}

impl Encoder {
    /// A tracer that has seen nothing yet.
    pub fn new(params: &Params, options: &DataOptions) -> Self {
        Self { layout: Layout::new(params, options), references: References::default() }
    }

    /// The layout of its packets.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Instruction trace sent a sync packet, or data packets were lost: what comes next is sent in full.
    pub fn synchronise(&mut self) {
        self.references = References::default();
    }

    /// A support packet announced other options or parameters.
    pub fn configure(&mut self, params: &Params, options: &DataOptions) {
        self.layout = Layout::new(params, options);
    }

    /// Encodes one record in as few bytes as the options allow; `None` if they leave nothing of it, or there is no packet
    /// for it.
    pub fn push(&mut self, record: &DataRecord) -> Option<(Packet, Payload)> {
        self.encode(record, None)
    }

    /// Encodes one record in the way that it says; `None` if there is no such packet.
    pub fn put(&mut self, traced: &Traced) -> Option<Payload> {
        self.encode(&traced.record(), Some(traced.coding())).map(|(_, payload)| payload)
    }

    fn encode(&mut self, record: &DataRecord, coding: Option<Coding>) -> Option<(Packet, Payload)> {
        match record {
            DataRecord::Access(access) => self.access(access, coding),
            DataRecord::Response { lrid, atomic, size, data } => {
                let size = (*size).min(self.layout.largest_size());
                self.response(*lrid, *atomic, size, *data, coding)
            }
        }
    }

    fn access(&mut self, access: &DataAccess, coding: Option<Coding>) -> Option<(Packet, Payload)> {
        let layout = self.layout;
        let csr = access.dtype.is_csr();
        let size = if csr { layout.csr_size() } else { access.size };
        if !csr && size > layout.largest_size() {
            return None;
        }
        let address = if csr { access.address? & 0xFFF } else { wrap(access.address.unwrap_or(0), &layout) };
        let form = layout.form(access.dtype, access.lrid.is_some(), address)?;
        let aligned = csr || address & ((1 << size) - 1) == 0;
        // Only loads and stores say whether they are aligned; other accesses always are.
        let shift = if aligned && !csr { size } else { 0 };
        let slot = slot(csr, size);
        let data = form.data.then(|| access.data.map(|data| cut(data, size)));
        let operand = form.operand.then(|| access.operand.map(|operand| cut(operand, size)));
        let (data, operand) = (transpose(data)?, transpose(operand)?);
        if !aligned && !access.dtype.is_plain() {
            return None;
        }
        let packet = |coding: Coding| {
            let field = match (csr, coding.differential_address) {
                (false, true) => {
                    let before = self.references.address(slot)? >> shift;
                    wrap((address >> shift).wrapping_sub(before), &layout)
                }
                _ => address >> shift,
            };
            let data = match data {
                Some(data) => Some(self.references.code_data(data, slot, size, coding.data)?),
                None => None,
            };
            Some(Packet::Access(AccessPacket {
                dtype: access.dtype,
                multiple: access.multiple,
                aligned,
                size,
                coding,
                lrid: access.lrid,
                operand,
                data,
                address: form.address.then_some(field),
            }))
        };
        let chosen = shortest(self.codings(form.data, coding).filter_map(packet), &layout)?;
        let address = (form.address && !csr).then_some(address);
        self.references.note(slot, address, data);
        Some(chosen)
    }

    /// What `diff` may say under the options, the plainest first; or what it is to say.
    fn codings(&self, data: bool, wanted: Option<Coding>) -> impl Iterator<Item = Coding> + use<> {
        let options = self.layout.options;
        let allowed = [false, true]
            .into_iter()
            .flat_map(|differential_address| {
                [DataCoding::Full, DataCoding::Xor, DataCoding::Differential]
                    .map(|data| Coding { differential_address, data })
            })
            .filter(move |coding| {
                let full_data = coding.data == DataCoding::Full;
                (full_data || data && !options.full_data)
                    && !(coding.differential_address && (options.full_address || options.no_address))
            });
        wanted.into_iter().chain(allowed.filter(move |_| wanted.is_none()))
    }

    fn response(
        &mut self,
        lrid: u16,
        atomic: bool,
        size: u8,
        data: Option<u128>,
        coding: Option<Coding>,
    ) -> Option<(Packet, Payload)> {
        let slot = slot(false, size);
        let data = data.map(|data| cut(data, size));
        let packet = |coding: Coding| {
            let data = match data {
                Some(data) => Some((coding.data, self.references.code_data(data, slot, size, coding.data)?)),
                None => None,
            };
            Some(Packet::Response(ResponsePacket { atomic, size, lrid, data }))
        };
        let codings = self.codings(data.is_some(), coding).filter(|coding| !coding.differential_address);
        let chosen = shortest(codings.filter_map(packet), &self.layout)?;
        self.references.note(slot, None, data);
        Some(chosen)
    }
}

/// `None` where a value is wanted and missing.
fn transpose(value: Option<Option<u128>>) -> Option<Option<u128>> {
    match value {
        Some(None) => None,
        Some(value) => Some(value),
        None => Some(None),
    }
}

/// Decodes payloads and resolves what they leave out.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    layout: Layout,
    references: References,
    /// Atomic requests whose response has not come: number and size.
    requests: VecDeque<(u16, u8)>,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new(params: &Params, options: &DataOptions) -> Self {
        Self {
            layout: Layout::new(params, options),
            references: References::default(),
            requests: VecDeque::new(),
        }
    }

    /// A support packet announced other options or parameters.
    pub fn configure(&mut self, params: &Params, options: &DataOptions) {
        self.layout = Layout::new(params, options);
    }

    /// Instruction trace sent a sync packet, or packets were lost.
    pub fn synchronise(&mut self) {
        self.references = References::default();
    }

    /// Decodes one payload: the packet as it was sent.
    pub fn decode(&self, payload: &[u8]) -> Result<Packet, BadData> {
        let size_of =
            |lrid| self.requests.iter().rev().find(|(number, _)| *number == lrid).map(|&(_, size)| size);
        Packet::decode(payload, &self.layout, size_of)
    }

    /// Decodes one payload: what it means after all those before.
    pub fn trace(&mut self, payload: &[u8]) -> Result<Traced, BadData> {
        let packet = self.decode(payload)?;
        self.resolve(&packet).map(|record| Traced::new(&packet, &record))
    }

    /// What a packet means after all those before.
    pub fn resolve(&mut self, packet: &Packet) -> Result<DataRecord, BadData> {
        match packet {
            Packet::Access(access) => self.access(access).map(DataRecord::Access),
            Packet::Response(ResponsePacket { atomic, size, lrid, data }) => {
                if let Some(at) = self.requests.iter().rposition(|(number, _)| number == lrid) {
                    self.requests.remove(at);
                }
                let slot = slot(false, *size);
                let data = match data {
                    Some((coding, field)) => Some(
                        self.references.data_of(*field, slot, *size, *coding).ok_or(BadData::NoReference)?,
                    ),
                    None => None,
                };
                self.references.note(slot, None, data);
                Ok(DataRecord::Response { lrid: *lrid, atomic: *atomic, size: *size, data })
            }
        }
    }

    fn access(&mut self, packet: &AccessPacket) -> Result<DataAccess, BadData> {
        let csr = packet.dtype.is_csr();
        let (slot, size) = (slot(csr, packet.size), packet.size);
        if let (Some(lrid), false) = (packet.lrid, packet.dtype.is_plain()) {
            if self.requests.len() >= MOST_REQUESTS {
                self.requests.pop_front();
            }
            self.requests.push_back((lrid, size));
        }
        let shift = if packet.aligned && !csr { size } else { 0 };
        let address = match (packet.address, packet.coding.differential_address) {
            (Some(field), true) if !csr => {
                let before = self.references.address(slot).ok_or(BadData::NoReference)? >> shift;
                Some(field.wrapping_add(before) << shift)
            }
            (Some(field), _) => Some(field << shift),
            (None, _) => None,
        };
        let address = address.map(|address| wrap(address, &self.layout));
        let data = match packet.data {
            Some(field) => Some(
                self.references.data_of(field, slot, size, packet.coding.data).ok_or(BadData::NoReference)?,
            ),
            None => None,
        };
        self.references.note(slot, address.filter(|_| !csr), data);
        Ok(DataAccess {
            dtype: packet.dtype,
            multiple: packet.multiple,
            size,
            address,
            operand: packet.operand,
            data,
            lrid: packet.lrid,
        })
    }
}
