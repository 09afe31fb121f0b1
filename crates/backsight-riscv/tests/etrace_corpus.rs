//! The reference flow's streams: packets equal the CSV files, and encode to the same bytes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use backsight_core::Value;
use backsight_riscv::encap::{Deframer, Encapsulated, Frame, Framer, Framing, Kind};
use backsight_riscv::etrace::{Packet, PacketLayout, Params, PayloadDecoder, encode};
use backsight_testing::{corpus, gunzip};

fn streams(folder: &Path) -> Vec<PathBuf> {
    let mut streams: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "te_inst_raw"))
        .collect();
    streams.sort();
    streams
}

fn payloads(bytes: &[u8], framing: Framing) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut deframer = Deframer::new(framing);
    let mut sink = |frame: backsight_core::Located<Frame<'_>>| match frame.value {
        Frame::Packet(message) => payloads.push(message.payload.to_vec()),
        other => panic!("{other:?} at {}", frame.offset),
    };
    deframer.feed(bytes, &mut sink);
    deframer.finish(&mut sink);
    payloads
}

/// The columns of a CSV listing, in order.
const COLUMNS: [&str; 26] = [
    "format",
    "subformat",
    "address",
    "branch",
    "branches",
    "branch_map",
    "branch_count",
    "branch_fmt",
    "context",
    "ecause",
    "ienable",
    "encoder_mode",
    "interrupt",
    "irreport",
    "irdepth",
    "notify",
    "ioptions",
    "privilege",
    "qual_status",
    "time",
    "thaddr",
    "tval",
    "updiscon",
    "denable",
    "dloss",
    "doptions",
];

/// One line of a CSV listing, `_` for absent fields.
fn csv_line(packet: &Packet, params: &Params) -> String {
    let mut values = HashMap::new();
    packet.fields(&PacketLayout::new(params), &mut |field| {
        let value = match field.value {
            Value::Decimal(value) => value.to_string(),
            Value::Hexadecimal(value) => format!("{value:x}"),
            other => panic!("{other:?}"),
        };
        values.insert(field.name, value);
    });
    let cell = |name: &&str| values.get(*name).cloned().unwrap_or("_".to_string());
    COLUMNS.iter().map(cell).collect::<Vec<_>>().join(",")
}

#[test]
fn packets_equal_the_csv_and_encode_to_the_same_bytes() {
    let Some(corpus) = corpus() else { return };
    for folder in ["itype3", "itype4"] {
        let folder = corpus.join("etrace/refflow").join(folder);
        let (params, options) =
            Params::parse(&fs::read_to_string(folder.join("hardware_64.scf")).unwrap()).unwrap();
        for path in streams(&folder) {
            let bytes = fs::read(&path).unwrap();
            let csv = gunzip(&path.with_extension("te_inst.csv.gz"));
            let mut lines = std::str::from_utf8(&csv).unwrap().lines();
            assert_eq!(lines.next(), Some(COLUMNS.join(",").as_str()));
            let mut decoder = PayloadDecoder::new(params, options);
            let (mut framer, mut again) = (Framer::new(Framing::REFERENCE), Vec::new());
            for payload in payloads(&bytes, Framing::REFERENCE) {
                let packet = decoder.decode(&payload).unwrap();
                assert_eq!(Some(csv_line(&packet, &params).as_str()), lines.next(), "{}", path.display());
                let payload = encode(&packet, &params, decoder.options());
                let message = Encapsulated {
                    source: 0,
                    kind: Kind::Instruction,
                    flow: 0,
                    time: None,
                    payload: &payload,
                };
                framer.frame(&message, &mut again).unwrap();
            }
            assert_eq!(lines.next(), None);
            assert_eq!(again, bytes, "{}", path.display());
        }
    }
}

#[test]
fn captures_of_the_seed_parse_to_the_end_and_encode_to_the_same_bytes() {
    let Some(corpus) = corpus() else { return };
    for name in ["gpios_all", "hello_culsans", "l1_test"] {
        let folder = corpus.join("etrace/pulp");
        let beats = payloads(&fs::read(folder.join(format!("{name}.packets.bin"))).unwrap(), Framing::Pulp);
        let encap =
            payloads(&fs::read(folder.join(format!("{name}.encap.bin"))).unwrap(), Framing::PULP_ENCAP);
        assert_eq!(beats, encap, "{name}");
        let mut decoder = PayloadDecoder::new(backsight_riscv::cva6::params(), Default::default());
        for payload in &beats {
            let packet = decoder.decode(payload).unwrap_or_else(|bad| panic!("{name}: {bad} {payload:02x?}"));
            let again = encode(&packet, decoder.params(), decoder.options());
            assert_eq!(again.as_slice(), payload.as_slice(), "{name}: {packet:x?}");
        }
    }
}
