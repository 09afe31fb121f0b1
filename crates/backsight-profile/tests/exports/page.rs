//! The report has what was counted, and a browser shows it.

use std::process::Command;

use backsight_profile::report::{ReportOptions, write};
use serde_json::Value;

use super::readers::{Scratch, output, tool};
use super::{capture, profile_of};

fn page(name: &str) -> String {
    let options = ReportOptions {
        title: "</script><b>title".to_owned(),
        facts: vec![("Capture".to_owned(), name.to_owned())],
        ..ReportOptions::default()
    };
    let mut out = Vec::new();
    write(&profile_of(&capture(name)), &options, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_data_of_a_report_adds_up_to_all_instructions() {
    for name in ["calls-aarch64", "calls-riscv64", "interwork-arm", "first"] {
        let page = page(name);
        let line = page.lines().find_map(|line| line.strip_prefix("const data = ")).expect("the data");
        let data: Value = serde_json::from_str(line.trim_end_matches(';')).expect("JSON");
        let nodes = data["tree"]["nodes"].as_array().expect("nodes");
        let sum: u64 = nodes.iter().filter_map(|node| node[2].as_u64()).sum();
        assert_eq!(Some(sum), data["instructions"].as_u64(), "{name}");
        let code =
            data["functions"][0]["code"]["instructions"].as_array().expect("code of the hottest function");
        assert!(code.iter().all(|line| line[2].as_str().is_some_and(|text| !text.is_empty())), "{name}");
        assert!(!code.is_empty(), "{name}");
        assert_eq!(page.matches("</script>").count(), 1, "text of programs must not end the script");
    }
}

#[test]
fn the_report_of_a_million_blocks_is_a_few_megabytes() {
    let mut profile = profile_of(&capture("calls-aarch64"));
    let block = profile.blocks[0].clone();
    let size = block.end - block.start;
    profile.blocks.extend((1..1_000_000u64).map(|number| {
        let mut block = block.clone();
        (block.start, block.end) = (block.start + number * size, block.end + number * size);
        block
    }));
    let mut out = Vec::new();
    write(&profile, &ReportOptions::default(), &mut out).expect("memory takes everything");
    assert!(out.len() < 6_000_000, "{} bytes", out.len());
}

#[test]
fn a_browser_shows_the_report() {
    let Some(chromium) = tool(&["chromium"]) else { return };
    let scratch = Scratch::new("page");
    let file = scratch.write("report.html", page("calls-aarch64").as_bytes());
    let shown = output(
        Command::new(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("file://{}#functions", file.display())),
    );
    assert!(shown.contains("40,000 instructions"), "{shown}");
    assert!(shown.contains("ackermann"), "{shown}");
    assert!(shown.contains("&lt;/script&gt;&lt;b&gt;title"), "{shown}");
}
