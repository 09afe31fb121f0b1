//! Every snapshot of the corpus opens with the sources and buffers it has.

use backsight_capture::{Capture, Protocol, SourceConfig};

/// A buffer with its framing, its length, and its sources (protocol and trace ID).
type Buffer = (&'static str, &'static str, u64, &'static [(Protocol, u8)]);

const EXPECTED: &[(&str, &[Buffer])] = &[
    (
        "cc1-head",
        &[(
            "etr_0",
            "coresight",
            262_144,
            &[
                (Protocol::Etm4, 0x10),
                (Protocol::Etm4, 0x12),
                (Protocol::Etm4, 0x14),
                (Protocol::Etm4, 0x16),
                (Protocol::Etm4, 0x18),
                (Protocol::Etm4, 0x1A),
            ],
        )],
    ),
    ("a55-test-tpiu", &[("DSTREAM_0", "dstream", 49_152, &[(Protocol::Etm4, 1)])]),
    (
        "ete-ite-instr",
        &[("ETB_1", "raw", 67, &[(Protocol::Ete, 1)]), ("ETB_2", "raw", 53, &[(Protocol::Ete, 1)])],
    ),
    ("itm_only_raw", &[("ETB_1", "raw", 261, &[(Protocol::Itm, 0)])]),
    ("stm_only-juno", &[("ETB_1", "coresight", 1984, &[(Protocol::Stm, 0x20)])]),
    ("tc2-raw-10", &[("ETB_0", "raw", 10_873, &[(Protocol::Etm3, 0x10)])]),
    ("tc2-ptm-rstk-t32", &[("PTM_0_2", "raw", 27_884, &[(Protocol::Ptm, 2)])]),
];

#[test]
fn snapshots_have_the_expected_buffers_and_sources() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    for (folder, buffers) in EXPECTED {
        let capture = Capture::open(corpus.join("opencsd").join(folder).join("capture")).unwrap();
        assert_eq!(capture.buffers.len(), buffers.len(), "{folder}");
        for (number, (name, framing, length, sources)) in buffers.iter().enumerate() {
            let buffer = &capture.buffers[number];
            assert_eq!((buffer.name.as_str(), buffer.framing.name()), (*name, *framing), "{folder}");
            assert_eq!(buffer.length(), Some(*length), "{folder}");
            let found: Vec<(Protocol, u8)> = capture
                .sources_of(number)
                .map(|source| (source.protocol, source.id.map_or(0x7F, |id| id.get())))
                .collect();
            assert_eq!(found, *sources, "{folder}");
        }
    }
}

#[test]
fn every_snapshot_opens_and_every_source_of_a_known_protocol_is_configured() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    for entry in std::fs::read_dir(corpus.join("opencsd")).unwrap() {
        let folder = entry.unwrap().path().join("capture");
        let capture = Capture::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert!(!capture.buffers.is_empty() && !capture.sources.is_empty(), "{}", folder.display());
        for source in &capture.sources {
            assert_ne!(source.protocol, Protocol::Unknown, "{}", source.name);
            match (&source.config, source.protocol) {
                (SourceConfig::Etm4(config), Protocol::Ete) => assert!(config.is_ete(), "{}", source.name),
                (SourceConfig::Etm4(config), _) => assert!(!config.is_ete(), "{}", source.name),
                (_, protocol) => {
                    assert!(!matches!(protocol, Protocol::Etm4 | Protocol::Ete), "{}", source.name)
                }
            }
        }
        for warning in &capture.warnings {
            let known = ["not there", "there is no core", "no buffer is said", "there is no such file"];
            assert!(known.iter().any(|text| warning.contains(text)), "{warning}");
        }
    }
}
