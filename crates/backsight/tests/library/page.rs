//! The pages of the project: the example of the library is that of the crate's documentation, which is compiled and run,
//! and links lead somewhere.

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
        .map(|line| {
            line.strip_prefix(' ').unwrap_or(line).replace("\"captures/", "\"testdata/captures/") + "\n"
        })
        .collect();
    let ran: Vec<String> = example(&documented)
        .into_iter()
        .filter(|line| !line.starts_with("# ") && !line.starts_with("assert"))
        .collect();
    assert!(ran.len() > 8, "{documented}");
    assert_eq!(example(&page), ran);
}

/// Where the relative links of a page lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets
        .filter(|target| !target.contains("://"))
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty() && !target.contains(char::is_whitespace))
}

#[test]
fn links_of_pages_lead_to_files() {
    let root = repository();
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root.join(name));
    let mut seen = 0;
    for page in docs.chain(pages).filter(|path| path.extension().is_some_and(|end| end == "md")) {
        for link in links(&std::fs::read_to_string(&page).unwrap()) {
            assert!(page.parent().unwrap().join(link).exists(), "{}: {link}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} links");
}
