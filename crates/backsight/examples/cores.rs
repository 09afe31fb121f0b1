//! Decodes all sources of a capture on all cores, and says how many instructions each executed: `cores CAPTURE`.

use backsight::{Capture, Event};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capture = Capture::open(std::env::args().nth(1).ok_or("which capture?")?)?;
    let count = |sum: &mut u64, item: backsight::Item<'_, Event>| {
        if let Event::Range(range) = item.value {
            *sum += u64::from(range.instructions);
        }
    };
    let (summary, counts) = capture.execution().threads(0).fold(|_| 0, count)?;
    for (source, instructions) in counts {
        println!("{instructions:12}  {}", source.name());
    }
    println!("{summary}");
    Ok(())
}
