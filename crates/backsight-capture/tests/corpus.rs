//! Every snapshot of the corpus opens.

use backsight_capture::Capture;

#[test]
fn every_snapshot_of_the_corpus_opens() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    for entry in std::fs::read_dir(corpus.join("opencsd")).unwrap() {
        let folder = entry.unwrap().path().join("capture");
        let capture = Capture::open(&folder).unwrap_or_else(|error| panic!("{error}"));
        println!("{} {:?}", folder.display(), capture.warnings);
        for (number, buffer) in capture.buffers.iter().enumerate() {
            println!("  {} {} {:?}", buffer.name, buffer.framing, buffer.length());
            for source in capture.sources_of(number) {
                println!("    {} {:?} {} core {:?}", source.name, source.id, source.protocol, source.core);
            }
        }
    }
}
