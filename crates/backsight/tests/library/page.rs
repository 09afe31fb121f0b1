//! The example of the page on the library is that of the crate's documentation, which is compiled and run.

use backsight_testing::repository;

/// The lines of the first block of Rust.
fn example(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !["```", "```rust"].contains(line)).skip(1);
    lines.take_while(|line| *line != "```").map(str::to_owned).collect()
}

#[test]
fn the_example_of_the_page_is_compiled_and_run() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let page = read("docs/library.md");
    let documented: String = read("crates/backsight/src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).replace("../../testdata", "testdata") + "\n")
        .collect();
    let ran: Vec<String> = example(&documented)
        .into_iter()
        .filter(|line| !line.starts_with("# ") && !line.starts_with("assert"))
        .collect();
    assert!(ran.len() > 8, "{documented}");
    assert_eq!(example(&page), ran);
}
