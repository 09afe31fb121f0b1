//! Bits an instruction of schemes over the measured programs (see tests/squeeze/programs):
//!
//! ```text
//! cargo run --release -p backsight-squeeze --example squeeze_table -- FOLDER INSTRUCTIONS SCHEME …
//! ```

use backsight_sim::{Options, Simulator, Streams};
use backsight_squeeze::Scheme;
use backsight_squeeze::lab::{Bench, Case, code_of};
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn measure(folder: &Path, case: &Case, most: u64, schemes: &[Scheme]) -> Result<(u64, Vec<u64>), Failure> {
    let file = std::fs::read(folder.join("bin").join(&case.command[0]))?;
    let mut streams = Streams::none();
    if let Some(input) = &case.input {
        streams.input = Box::new(File::open(folder.join(input))?);
    }
    let full = |word: &String| {
        if word.starts_with("input/") { folder.join(word).display().to_string() } else { word.clone() }
    };
    let arguments = case.command.iter().map(full).collect();
    let options = Options { streams, arguments, instructions: most, ..Options::default() };
    let mut bench = Bench::new(schemes, code_of(&file)?);
    let mut unfit = Ok(());
    Simulator::load(&file, options)?.run(&mut |item| {
        if unfit.is_ok() {
            unfit = bench.push(&item);
        }
    });
    unfit?;
    Ok((bench.instructions(), bench.finish().iter().map(|outcome| outcome.bits).collect()))
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name the folder of the programs")?;
    let most = arguments.next().ok_or("say how many instructions")?.parse()?;
    let names: Vec<_> = arguments.collect();
    let schemes: Vec<_> = names
        .iter()
        .map(|name| Scheme::parse(name).map(|scheme| scheme.with_address_bits(32)))
        .collect::<Result<_, _>>()?;
    let folder = Path::new(&folder);
    let cases = Case::list(&std::fs::read_to_string(folder.join("list"))?)?;
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { break };
                    match measure(folder, case, most, &schemes) {
                        Ok(row) => rows.lock().unwrap().push((number, row)),
                        Err(failure) => eprintln!("{}: {failure}", case.name),
                    }
                }
            });
        }
    });
    let mut rows = rows.into_inner()?;
    rows.sort();
    print!("{:14}{:>8}", "program", "M ins");
    (0..schemes.len()).for_each(|n| print!("{:>10}", names[n].chars().take(9).collect::<String>()));
    println!();
    let mut sums = vec![0; schemes.len()];
    let mut total = 0;
    for (number, (count, bits)) in &rows {
        print!("{:14}{:>8.1}", cases[*number].name, *count as f64 / 1e6);
        bits.iter().for_each(|&bits| print!("{:>10.5}", bits as f64 / *count as f64));
        println!();
        total += count;
        sums.iter_mut().zip(bits).for_each(|(sum, bits)| *sum += bits);
    }
    print!("{:14}{:>8.1}", "weighted", total as f64 / 1e6);
    sums.iter().for_each(|&bits| print!("{:>10.5}", bits as f64 / total as f64));
    print!("\n{:22}", "plain mean");
    for n in 0..schemes.len() {
        let mean = rows.iter().map(|(_, (count, bits))| bits[n] as f64 / *count as f64).sum::<f64>();
        print!("{:>10.5}", mean / rows.len() as f64);
    }
    println!();
    for scheme in &schemes {
        if let Scheme::Mix(build) = scheme {
            println!("{scheme}: {} bytes of state", build.state_bits().div_ceil(8));
        }
    }
    Ok(())
}
