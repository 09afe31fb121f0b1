//! docs/tables.md describes what there is.

use backsight_table::Table;
use backsight_testing::assert_golden;

/// The tables and their columns, as docs/tables.md has them.
fn described() -> String {
    let mut text = String::new();
    for table in Table::ALL {
        text.push_str(&format!("### `{table}`\n\n{}.\n\n", capitalised(table.about())));
        text.push_str("| column | type | what it says |\n|---|---|---|\n");
        for column in table.columns() {
            let null = if column.nullable { ", or null" } else { "" };
            let meaning = column.meaning.replace('|', "\\|");
            text.push_str(&format!("| `{}` | {}{null} | {meaning} |\n", column.name, column.kind.name()));
        }
        text.push('\n');
    }
    text
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[test]
fn the_page_describes_every_table_and_column() {
    const PAGE: &str = "docs/tables.md";
    const BEGIN: &str = "<!-- columns -->\n\n";
    const END: &str = "<!-- end of columns -->\n";
    let page = std::fs::read_to_string(backsight_testing::repository().join(PAGE)).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("where columns begin");
    let (_, after) = rest.split_once(END).expect("where columns end");
    assert_golden(PAGE, &format!("{before}{BEGIN}{}{END}{after}", described()));
}
