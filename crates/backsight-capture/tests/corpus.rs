//! Every snapshot of the corpus opens with the sources and buffers it has.

use backsight_capture::Capture;

/// A buffer with its framing, its length, and the words for its sources.
type Buffer = (&'static str, &'static str, u64, &'static [&'static str]);

const EXPECTED: &[(&str, &[Buffer])] = &[
    ("cc1-head", &[("etr_0", "coresight", 262_144, &["ETM4"; 6])]),
    ("a55-test-tpiu", &[("DSTREAM_0", "dstream", 49_152, &["ETM4.2"])]),
    ("ete-ite-instr", &[("ETB_1", "raw", 67, &["ETE"]), ("ETB_2", "raw", 53, &["ETE"])]),
    ("itm_only_raw", &[("ETB_1", "raw", 261, &["ITM"])]),
    ("stm_only-juno", &[("ETB_1", "coresight", 1984, &["STM"])]),
    ("tc2-raw-10", &[("ETB_0", "raw", 10_873, &["ETM3.5"])]),
    ("tc2-ptm-rstk-t32", &[("PTM_0_2", "raw", 27_884, &["PFT1.1"])]),
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
            let found: Vec<&str> = capture.sources_of(number).map(|source| source.format.as_str()).collect();
            assert_eq!(found, *sources, "{folder}");
        }
    }
}

#[test]
fn every_snapshot_opens() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    for entry in std::fs::read_dir(corpus.join("opencsd")).unwrap() {
        let folder = entry.unwrap().path().join("capture");
        let capture = Capture::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert!(!capture.buffers.is_empty() && !capture.sources.is_empty(), "{}", folder.display());
        for warning in &capture.warnings {
            let known = ["not there", "there is no core", "no buffer is said", "there is no such file"];
            assert!(known.iter().any(|text| warning.contains(text)), "{warning}");
        }
    }
}
