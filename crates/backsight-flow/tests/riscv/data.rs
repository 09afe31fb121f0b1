//! Data trace and times of frames, from the bytes of a stream to events.

use backsight_core::{Address, Located};
use backsight_flow::etrace::{Fault, Follower, Settings};
use backsight_flow::{AccessKind, Event, TracedAccess};
use backsight_riscv::encap::{Encapsulated, Encapsulation, Framer, Framing, Kind};
use backsight_riscv::etrace::{
    Config, DataOptions, Decoder, Options, Packet, Params, Start, Support, data, encode,
};
use backsight_riscv::ingress::{DataAccess, DataRecord, Dtype};

use crate::program::Program;

const PARAMS: fn() -> Params = || Params {
    data_width: 128,
    daddress_width: 64,
    dsize_width: 3,
    dtype_width: 4,
    lrid_width: 4,
    data_split: 1,
    iaddress_width: 64,
    ..Params::default()
};

/// A stream of one source, with data trace.
struct Stream {
    config: Config,
    framer: Framer,
    encoder: data::Encoder,
    bytes: Vec<u8>,
}

impl Stream {
    fn new() -> Self {
        let encapsulation = Encapsulation { source_bits: 6, time_bytes: 4, type_bits: 2 };
        let framing = Framing::Standard(encapsulation);
        let config = Config { params: PARAMS(), options: Options::default(), framing };
        let encoder = data::Encoder::new(&config.params, &DataOptions::default());
        let mut stream = Self { config, framer: Framer::new(framing), encoder, bytes: Vec::new() };
        stream.instruction(Packet::Support(Support { denable: true, ..Support::default() }));
        stream.instruction(Packet::Start(Start { branch: true, address: 0x800, ..Start::default() }));
        stream
    }

    fn frame(&mut self, kind: Kind, time: Option<u64>, payload: &[u8]) {
        let packet = Encapsulated { source: 3, kind, flow: 0, time, payload };
        self.framer.frame(&packet, &mut self.bytes).unwrap();
    }

    fn instruction(&mut self, packet: Packet) {
        let payload = encode(&packet, &self.config.params, &self.config.options);
        self.frame(Kind::Instruction, Some(0x1000), &payload);
    }

    fn data(&mut self, time: u64, record: DataRecord) {
        let (_, payload) = self.encoder.push(&record).expect("a packet for it");
        self.frame(Kind::Data, Some(time), &payload);
    }

    /// Accesses and times, and how many packets were bad.
    fn follow(&self) -> (Vec<Event>, u64) {
        let program = Program(vec![(0x1000, vec![0x13, 0, 0, 0])]);
        let mut decoder = Decoder::new(&self.config);
        let mut follower = Follower::new(Settings::from(&self.config), &program);
        let mut events = Vec::new();
        let mut sink = |event: Located<Event>| events.push(event.value);
        decoder.feed(&self.bytes, &mut |message| follower.push(message, &mut sink));
        decoder.finish(&mut |message| follower.push(message, &mut sink));
        follower.finish(&mut sink);
        events.retain(|event| matches!(event, Event::Access(_) | Event::Timestamp { .. }));
        (events, follower.faults().of(Fault::BadData))
    }
}

const fn time(value: u64) -> Event {
    Event::Timestamp { value, cycles: None }
}

fn access(kind: AccessKind, size: u8, address: u64, value: Option<u64>) -> TracedAccess {
    TracedAccess::new(kind, size).at(Some(address)).with_value(value)
}

#[test]
fn accesses_and_the_times_of_their_packets_are_reported() {
    let mut stream = Stream::new();
    let store = DataAccess { dtype: Dtype::Store, size: 2, address: Some(0x2000), ..DataAccess::default() };
    stream.data(0x1001, DataRecord::Access(DataAccess { data: Some(7), ..store }));
    let wide = DataAccess { size: 4, address: Some(0x3000), data: Some(1 << 64 | 2), ..store };
    stream.data(0x1001, DataRecord::Access(wide));
    let csr = DataAccess {
        dtype: Dtype::CsrReadSet,
        address: Some(0x300),
        operand: Some(8),
        data: Some(1),
        ..DataAccess::default()
    };
    stream.data(0x1002, DataRecord::Access(csr));
    let (events, bad) = stream.follow();
    let csr = access(AccessKind::CsrReadSet, 8, 0x300, Some(1)).with_operand(Some(8));
    let expected = [
        time(0x1000),
        Event::Access(access(AccessKind::Store, 4, 0x2000, Some(7))),
        time(0x1001),
        Event::Access(access(AccessKind::Store, 8, 0x3000, Some(2))),
        Event::Access(access(AccessKind::Store, 8, 0x3008, Some(1))),
        Event::Access(csr),
        time(0x1002),
    ];
    assert_eq!((events.as_slice(), bad), (&expected[..], 0));
    assert_eq!(
        Event::Access(csr).to_string(),
        "CSR read and set of 8 bytes at 0x300, value 0x1, operand 0x8"
    );
}

#[test]
fn a_split_load_is_one_access_at_its_response() {
    let mut stream = Stream::new();
    let request = |lrid, address| {
        DataRecord::Access(DataAccess {
            size: 3,
            address: Some(address),
            lrid: Some(lrid),
            ..DataAccess::default()
        })
    };
    let response = |lrid, data| DataRecord::Response { lrid, atomic: false, size: 3, data };
    for record in [
        request(1, 0x2000),
        request(2, 0x2008),
        response(2, Some(22)),
        response(1, None),
        response(9, Some(99)),
        request(4, 0x2010),
    ] {
        stream.data(0x1000, record);
    }
    let (events, bad) = stream.follow();
    let expected = [
        access(AccessKind::Load, 8, 0x2008, Some(22)),
        access(AccessKind::Load, 8, 0x2000, None).failed(),
        TracedAccess::new(AccessKind::Load, 8).with_value(Some(99)),
        access(AccessKind::Load, 8, 0x2010, None),
    ];
    assert_eq!(events[1..], expected.map(Event::Access));
    assert_eq!((expected[1].address(), expected[1].has_failed()), (Some(Address(0x2000)), true));
    assert_eq!(bad, 0);
}

#[test]
fn bad_data_is_counted_and_leaves_execution_alone() {
    let mut stream = Stream::new();
    stream.frame(Kind::Data, None, &[0xFF; 30]);
    let (events, bad) = stream.follow();
    assert_eq!((events, bad), (vec![time(0x1000)], 1));
}
