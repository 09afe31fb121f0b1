//! Counts the instructions of each function: `functions CAPTURE [PROGRAM.elf ...]`.

use std::collections::BTreeMap;

use backsight::core::AddressSpace;
use backsight::{Event, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let capture = arguments.next().ok_or("which capture?")?;
    let options = arguments.fold(OpenOptions::new(), |options, program| options.image(&program));
    let capture = options.open(capture)?;
    let image = capture.code()?.image();

    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    capture.execution().run(|item| {
        if let Event::Range(range) = item.value {
            let symbol = image.symbolise(AddressSpace::ANY, range.start);
            let name = symbol.map_or_else(|| "?".to_owned(), |symbol| symbol.name.to_string());
            *counts.entry(name).or_default() += u64::from(range.instructions);
        }
    })?;
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in counts {
        println!("{count:12}  {name}");
    }
    Ok(())
}
