//! The page: files that are in the program.

use backsight_profile::report;

/// Those that a report does not have.
const OWN: &[(&str, &str)] = &[
    ("", include_str!("../page/index.html")),
    ("view.css", include_str!("../page/view.css")),
    ("app.js", include_str!("../page/app.js")),
    ("ask.js", include_str!("../page/ask.js")),
    ("clock.js", include_str!("../page/clock.js")),
    ("find.js", include_str!("../page/find.js")),
    ("keys.js", include_str!("../page/keys.js")),
    ("moment.js", include_str!("../page/moment.js")),
    ("provider.js", include_str!("../page/provider.js")),
    ("selection.js", include_str!("../page/selection.js")),
    ("settings.js", include_str!("../page/settings.js")),
];

/// A file of the page, and what kind of text it is.
pub(super) fn file(name: &str) -> Option<(&'static str, &'static str)> {
    let style = [("style.css", report::STYLE)];
    let mut all = OWN.iter().chain(report::MODULES).chain(&style);
    let text = all.find(|file| file.0 == name)?.1;
    let kind = match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "text/html; charset=utf-8",
    };
    Some((kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_the_page_imports_is_there() {
        let mut open = vec!["app.js"];
        let mut seen = Vec::new();
        while let Some(name) = open.pop() {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let (_, text) = file(name).unwrap_or_else(|| panic!("{name} is missing"));
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let (_, from) = line.split_once(" from \"./").unwrap_or_else(|| panic!("{name}: {line}"));
                open.push(from.trim_end_matches("\";"));
            }
        }
        let unused: Vec<_> = OWN
            .iter()
            .map(|file| file.0)
            .filter(|name| name.ends_with(".js") && !seen.contains(name))
            .collect();
        assert!(unused.is_empty(), "{unused:?}");
        let (_, page) = file("").expect("the page");
        for name in ["style.css", "view.css", "app.js"] {
            assert!(page.contains(&format!("\"{name}\"")), "{name}");
        }
        // What stands in a page is no script, as its policy wants.
        assert!(
            !page.contains("onclick") && !page.contains("style=\"") && page.matches("<script").count() == 1
        );
    }
}
