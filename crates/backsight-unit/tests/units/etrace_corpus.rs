//! The tracer makes the reference flow's streams, byte for byte, of the ingress that was recorded with them.

use std::fs;

use backsight_core::Located;
use backsight_riscv::encap::Framing;
use backsight_riscv::etrace::{Config, Decoder, Encoder, Message, Packet, Params};
use backsight_riscv::ingress::csv;
use backsight_testing::{corpus, gunzip};
use backsight_unit::etrace::{Algorithm, Settings, Tracer};
use backsight_unit::riscv::{Resync, ResyncMode};

#[test]
fn the_recorded_ingress_gives_the_same_bytes() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("etrace/refflow/itype3");
    let (params, options) =
        Params::parse(&fs::read_to_string(folder.join("hardware_64.scf")).unwrap()).unwrap();
    let config = Config { params, options, framing: Framing::REFERENCE };
    let resync = Resync { mode: ResyncMode::Packets, limit: 16 };
    let settings = Settings { algorithm: Algorithm::Reference, resync, ..Settings::default() };
    let mut streams = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "te_inst_raw") {
            continue;
        }
        let expected = fs::read(&path).unwrap();
        let ingress = gunzip(&path.with_extension("encoder_input.gz"));
        let blocks = csv::parse(std::str::from_utf8(&ingress).unwrap()).unwrap();
        let mut tracer = Tracer::new(params, Default::default(), settings).unwrap();
        let (mut encoder, mut bytes) = (Encoder::new(&config), Vec::new());
        let mut sink = |packet: Packet| encoder.put(&packet.into(), &mut bytes).unwrap();
        blocks.iter().for_each(|block| tracer.push(block, &mut sink));
        tracer.finish(&mut sink);
        let messages = |bytes: &[u8]| {
            let mut messages = Vec::new();
            Decoder::new(&config).feed(bytes, &mut |message: Located<Message>| messages.push(message));
            messages
        };
        for (n, (got, wanted)) in messages(&bytes).iter().zip(messages(&expected)).enumerate() {
            assert_eq!(*got, wanted, "packet {n} of {}", path.display());
        }
        assert_eq!(bytes, expected, "{}", path.display());
        streams += 1;
    }
    assert!(streams > 0);
}
